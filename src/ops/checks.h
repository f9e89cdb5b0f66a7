// What the ops check of their arguments before a backend sees them.
#pragma once

#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

struct LinearPart;

/// A part that grouped_linear() and linear() take: shapes, types and device agree.
void check_part(const OpContext& context, const LinearPart& part);

/// A float32 matrix of that shape, with any row stride.
inline bool is_float(const Tensor& x, int64_t rows, int64_t cols) {
  return x.dtype() == DType::kFloat32 && x.rows() == rows && x.cols() == cols && (x.defined() || x.size() == 0);
}

/// A vector of `size` elements of that type.
inline bool is_vector(const Tensor& x, DType dtype, int64_t size) {
  return x.dtype() == dtype && x.rows() == 1 && x.cols() == size && (x.defined() || size == 0);
}

}  // namespace quire::ops
