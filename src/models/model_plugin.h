// Models in shared libraries of their own: --model-plugin.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"

namespace quire {

/// Loads each plugin and lets it register its models. An entry is a library's path, or ARCHITECTURE=PATH for one that
/// is to be loaded only when a checkpoint asks for that architecture. One that is there already is passed over.
Status load_model_plugins(std::span<const std::string> plugins);

/// The path in such an entry.
std::filesystem::path plugin_library(const std::string& plugin);

/// Loads one library for good. Before any of its code runs, the ABI that it was built for is read from the file. An
/// Error, one sentence, says what is wrong with it: no such file, no shared library, no plugin, built for another
/// quire, a missing symbol, an exception of its own, no model in it.
Status load_model_library(const std::filesystem::path& path);

}  // namespace quire
