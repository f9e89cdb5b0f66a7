// Layer normalisation with a learnt weight and, where the model has one, a bias.
#pragma once

#include <string>

#include "base/api.h"
#include "layers/adaptable_norm.h"

namespace quire {

class QUIRE_API LayerNorm : public AdaptableNorm {
 public:
  /// Registers `prefix`.weight and, with `bias`, `prefix`.bias of `size` values.
  LayerNorm(LayerContext& context, const std::string& prefix, int64_t size, double epsilon, bool bias);

  /// out = norm(x); out may be x, whose rows are the batch's current rows.
  void forward(const ForwardBatch& batch, const Tensor& x, Tensor& out) const;

 private:
  float epsilon_;
};

}  // namespace quire
