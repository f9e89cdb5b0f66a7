// What the commands of `quire lora` have in common.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "checkpoint/weight_source.h"
#include "hub/hub_options.h"
#include "lora/adapter_files.h"

namespace quire::cli {

/// Opens an adapter, a path or a hub's; FlagError names `command` when the path is missing, StartupError says what is
/// wrong with it.
std::shared_ptr<const AdapterFiles> open_adapter(const std::string& path, const HubOptions& hub,
                                                 const std::string& command);

/// Opens a model, a path or a hub's, of a family that quire or one of the plugins knows, without loading it.
Checkpoint open_base_model(const std::string& path, const HubOptions& hub, std::span<const std::string> model_plugins);

}  // namespace quire::cli
