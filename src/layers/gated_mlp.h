// The gated feed-forward block: down(activation(gate(x)) * up(x)).
#pragma once

#include <string>

#include "base/api.h"
#include "checkpoint/model_config.h"
#include "layers/forward_batch.h"
#include "layers/linear.h"

namespace quire {

class QUIRE_API GatedMlp {
 public:
  GatedMlp(LayerContext& context, const std::string& prefix, int64_t hidden_size, int64_t intermediate_size, bool bias,
           Activation activation);

  /// x, out: [tokens, hidden].
  void forward(ForwardBatch& batch, const Tensor& x, Tensor& out) const;

 private:
  /// Shares are multiples of `multiple`.
  GatedMlp(LayerContext& context, const std::string& prefix, int64_t hidden_size, int64_t intermediate_size, bool bias,
           Activation activation, int64_t multiple);

  MergedColumnParallelLinear gate_up_proj_;
  RowParallelLinear down_proj_;
  Activation activation_;
};

}  // namespace quire
