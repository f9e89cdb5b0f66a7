// Root-mean-square normalisation with a learnt weight.
#pragma once

#include <string>

#include "base/api.h"
#include "layers/forward_batch.h"
#include "layers/layer_context.h"

namespace quire {

class QUIRE_API RMSNorm {
 public:
  /// Registers `prefix`.weight of `size` values.
  RMSNorm(LayerContext& context, const std::string& prefix, int64_t size, double epsilon);
  RMSNorm(const RMSNorm&) = delete;
  RMSNorm& operator=(const RMSNorm&) = delete;

  /// out = norm(x); out may be x.
  void forward(OpContext& context, const Tensor& x, Tensor& out) const;
  /// residual += x; out = norm(residual).
  void forward(OpContext& context, const Tensor& x, Tensor& residual, Tensor& out) const;
  /// Each of `heads` heads of x by itself, in place; `size` is the head's.
  void forward_heads(OpContext& context, Tensor& x, int64_t heads) const;

 private:
  Tensor weight_;
  float epsilon_;
};

}  // namespace quire
