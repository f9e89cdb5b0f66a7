// Root-mean-square normalisation with a learnt weight.
#pragma once

#include <string>

#include "base/api.h"
#include "layers/adaptable_norm.h"

namespace quire {

class QUIRE_API RMSNorm : public AdaptableNorm {
 public:
  /// Registers `prefix`.weight of `size` values.
  RMSNorm(LayerContext& context, const std::string& prefix, int64_t size, double epsilon);

  // Rows of x are the batch's current rows.

  /// out = norm(x); out may be x.
  void forward(const ForwardBatch& batch, const Tensor& x, Tensor& out) const;
  /// residual += x; out = norm(residual); out may be x.
  void forward(const ForwardBatch& batch, const Tensor& x, Tensor& residual, Tensor& out) const;
  /// Each of `heads` heads of x by itself, in place; `size` is the head's.
  void forward_heads(const ForwardBatch& batch, Tensor& x, int64_t heads) const;

 private:
  float epsilon_;
};

}  // namespace quire
