// Root-mean-square normalisation of rows of which a rank has only some features, in two steps around a sum over ranks.
#pragma once

#include "base/api.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// sums[r, 0] = sum of x[r, i]^2. x: [rows, n] float32 (n may be 0), sums: [rows, 1] float32.
QUIRE_API void sum_of_squares(OpContext& context, const Tensor& x, Tensor& sums);

/// out[r, i] = x[r, i] / sqrt(sums[r, 0] / size + epsilon) * weight[i]. x, out: [rows, n] float32 (may be the same);
/// weight: [1, n] float32; `size` is the number of features that sums is of.
QUIRE_API void rms_norm_by_sums(OpContext& context, const Tensor& x, const Tensor& sums, int64_t size,
                                const Tensor& weight, float epsilon, Tensor& out);

}  // namespace quire::ops
