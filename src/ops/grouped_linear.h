// Many small products in one go: what the adapters of a batch add to a layer's output. Each part has rows, weights and
// sizes of its own; nothing is padded to a common size, and rows of no part are neither read nor written.
#pragma once

#include <span>

#include "ops/linear.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// One product. Each output is one chain of additions as in linear(), so that a row's result depends neither on the
/// other rows of its part nor on other parts.
struct LinearPart {
  Tensor x;                              ///< [rows, in_features] float32
  const PackedMatrix* weight = nullptr;  ///< nullptr: the product counts as zero
  Tensor out;                            ///< [rows, out_features] float32
  bool accumulate = false;  ///< false: out = x * Wᵀ + bias; true: out = gain * (out + scale * x * Wᵀ) + bias
  float scale = 1.0f;       ///< only with `accumulate`, as the gain
  Tensor gain;              ///< [1, out_features] float32; undefined for 1
  Tensor bias;              ///< [1, out_features] float32; undefined for 0
};

/// linear(), and then what the parts add (`accumulate`) to `out`, of whose rows and columns each one's `out` is a
/// slice: the same bits as grouped_linear() after linear(), but added while the output is still in a cache. Parts must
/// not overlap.
QUIRE_API void linear(OpContext& context, const Tensor& x, const PackedMatrix& weight, const Tensor& bias, Tensor& out,
                      std::span<const LinearPart> parts);

/// Computes all parts. Their outputs must not overlap each other nor any x; all may have row strides.
QUIRE_API void grouped_linear(OpContext& context, std::span<const LinearPart> parts);

}  // namespace quire::ops
