// What an attention layer needs of the cache, and how layers share block tables.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace quire {

enum class KvCacheKind : uint8_t { kFullAttention, kSlidingWindow };

/// One attention layer's declaration (this rank's heads).
struct KvCacheSpec {
  KvCacheKind kind = KvCacheKind::kFullAttention;
  int64_t kv_heads = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
  int64_t window = 0;  ///< positions a query sees, its own included; 0 for full attention
  bool operator==(const KvCacheSpec&) const = default;
};

/// Layers with equal specs: one block table, one pool of blocks, storage block-major across the layers.
struct KvCacheGroup {
  KvCacheSpec spec;
  std::vector<int> layers;  ///< attention layer indices, ascending
};

/// Groups in order of their first layer.
std::vector<KvCacheGroup> group_layers(const std::vector<KvCacheSpec>& layers);

/// Bytes that one block of `group` takes (all its layers, keys and values).
size_t block_bytes(const KvCacheGroup& group, int64_t block_size, DType dtype);

}  // namespace quire
