#include "api/locate.h"

#include <fmt/format.h>

#include "api/load_progress.h"

namespace quire {

Result<std::string> locate(const std::string& path, HubContent content, const HubOptions& hub) {
  LoadProgress progress(fmt::format("Downloading {}", path));
  return find_or_download(path, content, hub, [&](int64_t done, int64_t total) {
    progress.update(done, total);
    return true;
  });
}

Result<std::string> locate_adapter(const std::string& path, HubOptions hub) {
  hub.revision.clear();
  return locate(path, HubContent::kAdapter, hub);
}

Result<AdapterSpec> locate_adapter(AdapterSpec spec, const HubOptions& hub) {
  QUIRE_ASSIGN_OR_RETURN(spec.folder, locate_adapter(spec.path, hub));
  return spec;
}

}  // namespace quire
