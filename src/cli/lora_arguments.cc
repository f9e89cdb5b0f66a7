#include "cli/lora_arguments.h"

#include <utility>

#include "api/locate.h"
#include "base/check.h"
#include "cli/flag_set.h"
#include "models/model_plugin.h"
#include "models/registry.h"

namespace quire::cli {

std::shared_ptr<const AdapterFiles> open_adapter(const std::string& path, const HubOptions& hub,
                                                 const std::string& command) {
  if (path.empty()) throw FlagError("'" + command + "' needs the path of an adapter's folder.");
  const auto folder = locate_adapter(path, hub);
  if (!folder.ok()) throw StartupError(folder.error().message);
  auto files = AdapterFiles::open(*folder);
  if (!files.ok()) throw StartupError(files.error().message);
  return std::move(files).value();
}

Checkpoint open_base_model(const std::string& path, const HubOptions& hub, std::span<const std::string> model_plugins) {
  if (const Status loaded = load_model_plugins(model_plugins); !loaded.ok()) {
    throw StartupError(loaded.error().message);
  }
  const auto located = locate(path, HubContent::kModel, hub);
  if (!located.ok()) throw StartupError(located.error().message);
  auto checkpoint = open_checkpoint(*located);
  if (!checkpoint.ok()) throw StartupError(checkpoint.error().message);
  const auto family = ModelRegistry::instance().find(checkpoint->config.architecture);
  if (!family.ok()) throw StartupError(path + ": " + family.error().message);
  return std::move(checkpoint).value();
}

}  // namespace quire::cli
