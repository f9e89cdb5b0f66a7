// Rotary position embeddings: the table of angles for each rope type, as transformers computes it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/api.h"
#include "checkpoint/model_config.h"
#include "layers/forward_batch.h"
#include "layers/layer_context.h"

namespace quire {

/// Inverse frequencies and the factor on cos and sin, as in transformers' modeling_rope_utils.
struct RopeParameters {
  std::vector<float> inverse_frequencies;  ///< rotary_dim / 2
  float attention_factor = 1.0f;
};

/// `max_positions` matters only to the dynamic type: beyond the original context its base grows with it, as vLLM
/// computes it.
QUIRE_API RopeParameters compute_rope_parameters(const ModelConfig& config, int64_t max_positions);

/// The positions that a model's rope covers without being asked for more: max_position_embeddings, extended by the
/// scaling factor for linear and yarn as vLLM does; the original context for dynamic.
QUIRE_API int64_t rope_context_length(const ModelConfig& config);

class QUIRE_API RotaryEmbedding {
 public:
  RotaryEmbedding(LayerContext& context, const ModelConfig& config);

  /// Rotates the heads of x [tokens, heads * head_dim] in place.
  void forward(ForwardBatch& batch, int64_t heads, Tensor& x) const;

 private:
  int64_t head_dim_;
  Tensor cos_sin_;  ///< [max_positions, rotary_dim]
};

}  // namespace quire
