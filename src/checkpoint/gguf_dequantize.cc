// One function per block format, each a block at a time. The inner loops have fixed lengths and no branches so that
// compilers vectorize them.
#include "checkpoint/gguf_dequantize.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "tensor/convert.h"

namespace quire {
namespace {

float half_at(const uint8_t* data) {
  uint16_t bits = 0;
  std::memcpy(&bits, data, sizeof(bits));
  return float16_to_float(bits);
}

void q4_0(const uint8_t* block, float* out) {
  const float scale = half_at(block);
  const uint8_t* quants = block + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>((quants[i] & 15) - 8);
    out[i + 16] = scale * static_cast<float>((quants[i] >> 4) - 8);
  }
}

void q4_1(const uint8_t* block, float* out) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  const uint8_t* quants = block + 4;
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(quants[i] & 15) + minimum;
    out[i + 16] = scale * static_cast<float>(quants[i] >> 4) + minimum;
  }
}

/// The 32 five-bit values of a Q5_0 or Q5_1 block: low nibbles, and a word of the fifth bits.
std::array<int, 32> five_bit_values(const uint8_t* high_bits, const uint8_t* quants) {
  uint32_t high = 0;
  std::memcpy(&high, high_bits, sizeof(high));
  std::array<int, 32> values{};
  for (unsigned i = 0; i < 16; ++i) {
    values[i] = static_cast<int>((quants[i] & 15U) | ((high >> i & 1U) << 4));
    values[i + 16] = static_cast<int>((quants[i] >> 4) | ((high >> (i + 16) & 1U) << 4));
  }
  return values;
}

void q5_0(const uint8_t* block, float* out) {
  const float scale = half_at(block);
  const auto values = five_bit_values(block + 2, block + 6);
  for (size_t i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(values[i] - 16);
}

void q5_1(const uint8_t* block, float* out) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  const auto values = five_bit_values(block + 4, block + 8);
  for (size_t i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(values[i]) + minimum;
}

void q8_0(const uint8_t* block, float* out) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * scale;
}

// 16 sub-blocks of 16: a byte of scale and minimum (4 bits each), then 2-bit values, then two halves.
void q2_k(const uint8_t* block, float* out) {
  const uint8_t* scales = block;
  const uint8_t* quants = block + 16;
  const float scale = half_at(block + 80);
  const float minimum = half_at(block + 82);
  for (int sub = 0; sub < 16; ++sub) {
    const float sub_scale = scale * static_cast<float>(scales[sub] & 15);
    const float sub_minimum = minimum * static_cast<float>(scales[sub] >> 4);
    const uint8_t* values = quants + sub / 8 * 32 + sub % 2 * 16;
    const int shift = sub % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i) {
      out[sub * 16 + i] = sub_scale * static_cast<float>(values[i] >> shift & 3) - sub_minimum;
    }
  }
}

// 16 sub-blocks of 16: a mask of third bits (clear: minus 4), 2-bit values, 12 bytes with sixteen 6-bit scales, one
// half.
void q3_k(const uint8_t* block, float* out) {
  const uint8_t* mask = block;
  const uint8_t* quants = block + 32;
  const uint8_t* scales = block + 96;
  const float scale = half_at(block + 108);
  for (int sub = 0; sub < 16; ++sub) {
    const int low = sub < 8 ? scales[sub] & 15 : scales[sub - 8] >> 4;
    const int high = scales[8 + sub % 4] >> (sub / 4 * 2) & 3;
    const float sub_scale = scale * static_cast<float>((low | high << 4) - 32);
    const uint8_t* values = quants + sub / 8 * 32 + sub % 2 * 16;
    const uint8_t* bits = mask + sub % 2 * 16;
    const int shift = sub % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i) {
      const int value = (values[i] >> shift & 3) - ((bits[i] >> sub / 2 & 1) ^ 1) * 4;
      out[sub * 16 + i] = sub_scale * static_cast<float>(value);
    }
  }
}

void q4_k(const uint8_t* block, float* out) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  for (int sub = 0; sub < 8; ++sub) {
    const PackedScale factors = packed_scale(block + 4, sub);
    const float sub_scale = scale * static_cast<float>(factors.scale);
    const float sub_minimum = minimum * static_cast<float>(factors.minimum);
    const uint8_t* quants = block + 16 + sub / 2 * 32;
    const int shift = sub % 2 * 4;
    for (int i = 0; i < 32; ++i)
      out[sub * 32 + i] = sub_scale * static_cast<float>(quants[i] >> shift & 15) - sub_minimum;
  }
}

void q5_k(const uint8_t* block, float* out) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  const uint8_t* high = block + 16;
  for (int sub = 0; sub < 8; ++sub) {
    const PackedScale factors = packed_scale(block + 4, sub);
    const float sub_scale = scale * static_cast<float>(factors.scale);
    const float sub_minimum = minimum * static_cast<float>(factors.minimum);
    const uint8_t* quants = block + 48 + sub / 2 * 32;
    const int shift = sub % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      const int value = (quants[i] >> shift & 15) | (high[i] >> sub & 1) << 4;
      out[sub * 32 + i] = sub_scale * static_cast<float>(value) - sub_minimum;
    }
  }
}

// Two halves of 128: 64 bytes of low nibbles, 32 bytes of high bit pairs; 16 signed scales, one half.
void q6_k(const uint8_t* block, float* out) {
  const float scale = half_at(block + 208);
  for (int group = 0; group < 8; ++group) {
    const uint8_t* low = block + group / 4 * 64 + group % 2 * 32;
    const uint8_t* high = block + 128 + group / 4 * 32;
    const uint8_t* scales = block + 192 + group * 2;
    const int low_shift = group % 4 / 2 * 4;
    const int high_shift = group % 4 * 2;
    for (int sub = 0; sub < 2; ++sub) {
      const float sub_scale = scale * static_cast<float>(static_cast<int8_t>(scales[sub]));
      for (int i = sub * 16; i < sub * 16 + 16; ++i) {
        const int value = ((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32;
        out[group * 32 + i] = sub_scale * static_cast<float>(value);
      }
    }
  }
}

void f32(const uint8_t* block, float* out) { std::memcpy(out, block, sizeof(float)); }

void f16(const uint8_t* block, float* out) { *out = half_at(block); }

void bf16(const uint8_t* block, float* out) {
  uint16_t bits = 0;
  std::memcpy(&bits, block, sizeof(bits));
  *out = bfloat16_to_float(bits);
}

template <void (*kBlock)(const uint8_t*, float*)>
void each_block(const GgmlTypeInfo& type, const uint8_t* data, int64_t count, float* out) {
  for (int64_t done = 0; done < count; done += type.block_size, data += type.block_bytes) kBlock(data, out + done);
}

}  // namespace

void gguf_dequantize(const GgmlTypeInfo& type, const std::byte* data, int64_t count, float* out) {
  QUIRE_CHECK(type.readable && count % type.block_size == 0);
  const auto* bytes = reinterpret_cast<const uint8_t*>(data);
  switch (static_cast<GgmlType>(type.number)) {
    case GgmlType::kF32:
      return each_block<f32>(type, bytes, count, out);
    case GgmlType::kF16:
      return each_block<f16>(type, bytes, count, out);
    case GgmlType::kBF16:
      return each_block<bf16>(type, bytes, count, out);
    case GgmlType::kQ4_0:
      return each_block<q4_0>(type, bytes, count, out);
    case GgmlType::kQ4_1:
      return each_block<q4_1>(type, bytes, count, out);
    case GgmlType::kQ5_0:
      return each_block<q5_0>(type, bytes, count, out);
    case GgmlType::kQ5_1:
      return each_block<q5_1>(type, bytes, count, out);
    case GgmlType::kQ8_0:
      return each_block<q8_0>(type, bytes, count, out);
    case GgmlType::kQ2_K:
      return each_block<q2_k>(type, bytes, count, out);
    case GgmlType::kQ3_K:
      return each_block<q3_k>(type, bytes, count, out);
    case GgmlType::kQ4_K:
      return each_block<q4_k>(type, bytes, count, out);
    case GgmlType::kQ5_K:
      return each_block<q5_k>(type, bytes, count, out);
    case GgmlType::kQ6_K:
      return each_block<q6_k>(type, bytes, count, out);
  }
}

}  // namespace quire
