// Rounding a channel's float weights to a compressed format.
#pragma once

#include <span>

#include "ops/quantized_linear.h"

namespace quire {

/// One scale for the channel, the largest |w| / 127; values to nearest even. What is not finite makes the scale NaN.
ops::QuantizedChannel round_to_int8(std::span<const float> weights);

/// A scale and a minimum for each 32 values, 16 steps apart: of several ranges that leave out a little at both ends,
/// the one with the least squared error.
ops::QuantizedChannel round_to_int4(std::span<const float> weights);

}  // namespace quire
