// Attention over the paged cache: writes this step's keys and values, then lets every query row read what lies before
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/api.h"
#include "distributed/partition.h"
#include "kv_cache/kv_cache_spec.h"
#include "layers/forward_batch.h"

namespace quire {

struct AttentionOptions {
  int64_t head_dim = 0;
  float scale = 0.0f;    ///< usually 1 / sqrt(head_dim)
  float softcap = 0.0f;  ///< 0: none
  int64_t window = 0;    ///< 0: full attention
};

class QUIRE_API Attention {
 public:
  /// `layer` is this layer's index among the rank's attention layers.
  Attention(int layer, const HeadPartition& heads, AttentionOptions options);

  /// q: [tokens, query heads * head_dim], k, v: [tokens, KV heads * head_dim], out as q.
  void forward(ForwardBatch& batch, const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out) const;

  /// What this layer needs of the cache.
  KvCacheSpec kv_cache_spec() const;

 private:
  int layer_;
  int64_t query_heads_;
  int64_t kv_heads_;
  std::vector<int32_t> kv_head_of_query_;
  AttentionOptions options_;
};

}  // namespace quire
