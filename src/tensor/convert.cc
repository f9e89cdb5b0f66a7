#include "tensor/convert.h"

#include <cmath>
#include <cstring>

namespace quire {

uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float float16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x400u) return std::bit_cast<float>(sign | ((magnitude + 0x1c000u) << 13));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
}

uint16_t float_to_float16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds beyond the largest float16
  if (magnitude < 0x38800000u) {  // subnormal or zero: the hardware's addition rounds to a multiple of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float round_to(float value, DType storage) {
  if (storage == DType::kBFloat16) return bfloat16_to_float(float_to_bfloat16(value));
  if (storage == DType::kFloat16) return float16_to_float(float_to_float16(value));
  return value;
}

void row_to_float(const MatrixView& view, int64_t row, float* out) {
  const auto offset = static_cast<size_t>(row * view.row_stride);
  if (view.dtype == DType::kFloat32) {
    std::memcpy(out, static_cast<const float*>(view.data) + offset, static_cast<size_t>(view.cols) * sizeof(float));
    return;
  }
  const auto* source = static_cast<const uint16_t*>(view.data) + offset;
  for (int64_t i = 0; i < view.cols; ++i) {
    out[i] = view.dtype == DType::kBFloat16 ? bfloat16_to_float(source[i]) : float16_to_float(source[i]);
  }
}

}  // namespace quire
