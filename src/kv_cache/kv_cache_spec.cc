#include "kv_cache/kv_cache_spec.h"

#include <algorithm>

#include "kv_cache/block_layout.h"

namespace quire {

std::vector<KvCacheGroup> group_layers(const std::vector<KvCacheSpec>& layers) {
  std::vector<KvCacheGroup> groups;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const KvCacheGroup& known) { return known.spec == layers[layer]; });
    if (group == groups.end()) {
      groups.push_back({layers[layer], {static_cast<int>(layer)}});
    } else {
      group->layers.push_back(static_cast<int>(layer));
    }
  }
  return groups;
}

size_t block_bytes(const KvCacheGroup& group, int64_t block_size, DType dtype) {
  return layout_of(group.spec, block_size, dtype).layer_bytes * group.layers.size();
}

}  // namespace quire
