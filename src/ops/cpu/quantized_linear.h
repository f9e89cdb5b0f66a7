// The compressed linear on the CPU. Arguments were checked by ops/quantized_linear.cc.
#pragma once

#include <span>

#include "ops/quantized_linear.h"

namespace quire::ops::cpu {

void quantized_linear(OpContext& context, const Tensor& x, std::span<const QuantizedPart> parts, const Tensor& bias,
                      Tensor& out, std::span<const LinearPart> additions);

void gather_channels(OpContext& context, std::span<const QuantizedPart> parts, const Tensor& ids, Tensor& out);

}  // namespace quire::ops::cpu
