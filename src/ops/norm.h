// Root-mean-square normalisation (Zhang & Sennrich 2019, arXiv:1910.07467) over rows.
#pragma once

#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// out[r] = x[r] / sqrt(mean(x[r]^2) + epsilon) * weight. x, out: [rows, n] float32 (may be the same); weight: [1, n]
/// float32.
void rms_norm(OpContext& context, const Tensor& x, const Tensor& weight, float epsilon, Tensor& out);

/// residual += x, then out = rms_norm(residual). The sum is what a later layer's residual continues from.
void add_rms_norm(OpContext& context, const Tensor& x, Tensor& residual, const Tensor& weight, float epsilon,
                  Tensor& out);

/// rms_norm of each head by itself, in place: x is [rows, heads * head_dim] (a view with any row stride), weight [1,
/// head_dim].
void rms_norm_heads(OpContext& context, Tensor& x, int64_t heads, int64_t head_dim, const Tensor& weight,
                    float epsilon);

}  // namespace quire::ops
