#include "checkpoint/architecture_config.h"

#include <utility>

namespace quire {

ArchitectureConfigs& ArchitectureConfigs::instance() {
  static ArchitectureConfigs configs;
  return configs;
}

void ArchitectureConfigs::declare(const std::string& architecture, ArchitectureConfig config) {
  configs_[architecture] = std::move(config);
}

void ArchitectureConfigs::set_resolver(std::function<Status(const std::string& architecture)> resolver) {
  resolver_ = std::move(resolver);
}

Result<const ArchitectureConfig*> ArchitectureConfigs::find(const std::string& architecture) const {
  if (resolver_) QUIRE_RETURN_IF_ERROR(resolver_(architecture));
  const auto found = configs_.find(architecture);
  return found == configs_.end() ? nullptr : &found->second;
}

}  // namespace quire
