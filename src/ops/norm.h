// Normalisation over rows: root-mean-square (Zhang & Sennrich 2019, arXiv:1910.07467) and layer normalisation (Ba et
// al. 2016, arXiv:1607.06450).
#pragma once

#include "base/api.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// out[r] = x[r] / sqrt(mean(x[r]^2) + epsilon) * weight. x, out: [rows, n] float32 (may be the same); weight: [1, n]
/// float32.
QUIRE_API void rms_norm(OpContext& context, const Tensor& x, const Tensor& weight, float epsilon, Tensor& out);

/// residual += x, then out = rms_norm(residual). The sum is what a later layer's residual continues from.
QUIRE_API void add_rms_norm(OpContext& context, const Tensor& x, Tensor& residual, const Tensor& weight, float epsilon,
                            Tensor& out);

/// rms_norm of each head by itself, in place: x is [rows, heads * head_dim] (a view with any row stride), weight [1,
/// head_dim].
QUIRE_API void rms_norm_heads(OpContext& context, Tensor& x, int64_t heads, int64_t head_dim, const Tensor& weight,
                              float epsilon);

/// out[r] = (x[r] - mean(x[r])) / sqrt(variance(x[r]) + epsilon) * weight + bias, the variance being that of all n
/// values (divided by n). x, out: [rows, n] float32 (may be the same); weight: [1, n] float32; bias as weight, or
/// undefined for none.
QUIRE_API void layer_norm(OpContext& context, const Tensor& x, const Tensor& weight, const Tensor& bias, float epsilon,
                          Tensor& out);

}  // namespace quire::ops
