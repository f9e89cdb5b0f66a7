#include "cli/lora_arguments.h"

#include <utility>

#include "base/check.h"
#include "cli/flag_set.h"
#include "models/model_plugin.h"
#include "models/registry.h"

namespace quire::cli {

std::shared_ptr<const AdapterFiles> open_adapter(const std::string& path, const std::string& command) {
  if (path.empty()) throw FlagError("'" + command + "' needs the path of an adapter's folder.");
  auto files = AdapterFiles::open(path);
  if (!files.ok()) throw StartupError(files.error().message);
  return std::move(files).value();
}

Checkpoint open_base_model(const std::string& path, std::span<const std::string> model_plugins) {
  if (const Status loaded = load_model_plugins(model_plugins); !loaded.ok()) {
    throw StartupError(loaded.error().message);
  }
  auto checkpoint = open_checkpoint(path);
  if (!checkpoint.ok()) throw StartupError(checkpoint.error().message);
  const auto family = ModelRegistry::instance().find(checkpoint->config.architecture);
  if (!family.ok()) throw StartupError(path + ": " + family.error().message);
  return std::move(checkpoint).value();
}

}  // namespace quire::cli
