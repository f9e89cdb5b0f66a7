#include "layers/attention.h"

#include "ops/attention.h"

namespace quire {

Attention::Attention(int layer, const HeadPartition& heads, AttentionOptions options)
    : layer_(layer),
      query_heads_(heads.query_heads.size()),
      kv_heads_(heads.kv_heads.size()),
      kv_head_of_query_(heads.kv_head_of_query),
      options_(options) {}

void Attention::forward(ForwardBatch& batch, const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out) const {
  if (batch.context->failure) return;
  const ops::PagedKvLayer& cache = batch.kv_cache->layer(layer_);
  const KvGroupBatch& group = batch.groups[static_cast<size_t>(batch.kv_cache->group_of(layer_))];
  ops::write_kv(*batch.context, k, v, group.slots, cache);
  const ops::AttentionParams params{query_heads_, options_.scale, options_.softcap, options_.window, kv_head_of_query_};
  ops::paged_attention(*batch.context, params, q, cache, group.sequences, out);
}

KvCacheSpec Attention::kv_cache_spec() const {
  return {options_.window > 0 ? KvCacheKind::kSlidingWindow : KvCacheKind::kFullAttention, kv_heads_, options_.head_dim,
          options_.head_dim, options_.window};
}

}  // namespace quire
