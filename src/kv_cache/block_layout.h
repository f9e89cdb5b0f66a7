// Where a layer's keys and values lie in a block: layer after layer, keys before values, each from a 64-byte boundary.
#pragma once

#include <cstddef>

#include "kv_cache/kv_cache_spec.h"

namespace quire {

struct BlockLayout {
  size_t key_bytes = 0;    ///< offset of a layer's values from its keys
  size_t layer_bytes = 0;  ///< from one layer's keys to the next layer's
};

inline BlockLayout layout_of(const KvCacheSpec& spec, int64_t block_size, DType dtype) {
  const auto aligned = [&](int64_t dim) {
    constexpr size_t kAlignment = 64;
    const size_t bytes = static_cast<size_t>(spec.kv_heads * block_size * dim) * dtype_size(dtype);
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  return {aligned(spec.k_dim), aligned(spec.k_dim) + aligned(spec.v_dim)};
}

}  // namespace quire
