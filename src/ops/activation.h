// The activations of the feed-forward layers, and elementwise arithmetic.
#pragma once

#include "base/api.h"
#include "ops/activation_kind.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// out[r, i] = activation(gate_up[r, i]) * gate_up[r, n + i]. gate_up: [rows, 2n] float32, out: [rows, n] float32.
/// SwiGLU is kSilu, GeGLU kGeluTanh or kGelu (Shazeer 2020, arXiv:2002.05202).
QUIRE_API void gated_activation(OpContext& context, Activation activation, const Tensor& gate_up, Tensor& out);

/// out[r, i] = activation(x[r, i]). x, out: [rows, n] float32 (may be the same).
QUIRE_API void activation(OpContext& context, Activation activation, const Tensor& x, Tensor& out);

/// x += y, elementwise. Both [rows, n] float32.
QUIRE_API void add(OpContext& context, const Tensor& y, Tensor& x);

/// x *= factor. [rows, n] float32.
QUIRE_API void scale(OpContext& context, float factor, Tensor& x);

}  // namespace quire::ops
