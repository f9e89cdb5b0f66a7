// Conversions between the float storage types on the host, rounding to nearest even.
#pragma once

#include <bit>
#include <cstdint>

#include "tensor/tensor.h"

namespace quire {

inline float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
uint16_t float_to_bfloat16(float value);
float float16_to_float(uint16_t bits);
uint16_t float_to_float16(float value);

/// The nearest value that `storage` (a float type) can hold.
float round_to(float value, DType storage);

/// Widens row `row` of a host matrix to float32. `out` holds view.cols values.
void row_to_float(const MatrixView& view, int64_t row, float* out);

}  // namespace quire
