// A root-mean-square norm over all heads of a token at once (OLMo 2's q_norm and k_norm), of which each rank has some.
#pragma once

#include <cstdint>
#include <string>

#include "base/api.h"
#include "distributed/partition.h"
#include "layers/forward_batch.h"
#include "layers/layer_context.h"

namespace quire {

/// Adds up the squares over the ranks; a KV head that several of them hold counts once. For one number of ranks it is
/// repeatable to the bit, as every sum over ranks; an adapter that trains its weight is refused.
class QUIRE_API AllHeadsRMSNorm {
 public:
  enum class Of { kQueries, kKeys };

  /// Registers `prefix`.weight of heads * head_dim values and keeps those of this rank's heads, which partition_heads()
  /// says for `query_heads` and `kv_heads` of the whole model.
  AllHeadsRMSNorm(LayerContext& context, const std::string& prefix, Of of, int64_t query_heads, int64_t kv_heads,
                  int64_t head_dim, double epsilon);
  AllHeadsRMSNorm(const AllHeadsRMSNorm&) = delete;
  AllHeadsRMSNorm& operator=(const AllHeadsRMSNorm&) = delete;

  /// x: [rows, this rank's heads * head_dim], in place.
  void forward(const ForwardBatch& batch, Tensor& x) const;

 private:
  int64_t size_;   ///< features of all ranks
  Range own_;      ///< of them, this rank's
  Range counted_;  ///< of those, the ones that no earlier rank has
  bool divided_;
  float epsilon_;
  Tensor weight_;  ///< [1, own features]
};

}  // namespace quire
