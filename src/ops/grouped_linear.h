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

/// Computes all parts. Their outputs must not overlap each other nor any x; all may have row strides.
void grouped_linear(OpContext& context, std::span<const LinearPart> parts);

}  // namespace quire::ops
