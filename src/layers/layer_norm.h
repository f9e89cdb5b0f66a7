// Layer normalisation with a learnt weight and, where the model has one, a bias.
#pragma once

#include <string>

#include "base/api.h"
#include "layers/forward_batch.h"
#include "layers/layer_context.h"

namespace quire {

class QUIRE_API LayerNorm {
 public:
  /// Registers `prefix`.weight and, with `bias`, `prefix`.bias of `size` values.
  LayerNorm(LayerContext& context, const std::string& prefix, int64_t size, double epsilon, bool bias);
  LayerNorm(const LayerNorm&) = delete;
  LayerNorm& operator=(const LayerNorm&) = delete;

  /// out = norm(x); out may be x.
  void forward(OpContext& context, const Tensor& x, Tensor& out) const;

 private:
  Tensor weight_;
  Tensor bias_;  ///< undefined where there is none
  float epsilon_;
};

}  // namespace quire
