// Rotary position embedding (Su et al. 2021, arXiv:2104.09864) in the half-rotated form of Hugging Face's models.
#pragma once

#include "base/api.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// Rotates the first `rotary_dim` values of each head in place: with h = rotary_dim / 2 and i < h,
///   x'[i] = x[i] * cos[p, i] - x[i + h] * sin[p, i],  x'[i + h] = x[i + h] * cos[p, i] + x[i] * sin[p, i].
/// x: [rows, heads * head_dim] float32 with any row stride; positions: [1, rows] int32;
/// cos_sin: [max_position, rotary_dim] float32, cos then sin, the attention factor multiplied in.
QUIRE_API void rotary_embedding(OpContext& context, const Tensor& positions, const Tensor& cos_sin, int64_t heads,
                                int64_t head_dim, Tensor& x);

}  // namespace quire::ops
