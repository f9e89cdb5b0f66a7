// GGUF's block formats -> float32. The formats: github.com/ggml-org/ggml, src/ggml-common.h and ggml-quants.c.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/ggml_type.h"

namespace quire {

/// A sub-block's 6-bit factors in Q4_K and Q5_K.
struct PackedScale {
  uint8_t scale;
  uint8_t minimum;
};

/// Sub-block `sub` of the 12 bytes in which those types pack eight scales and eight minimums.
inline PackedScale packed_scale(const uint8_t* packed, int sub) {
  const auto byte = [](int value) { return static_cast<uint8_t>(value); };
  if (sub < 4) return {byte(packed[sub] & 63), byte(packed[sub + 4] & 63)};
  return {byte((packed[sub + 4] & 15) | (packed[sub - 4] >> 6 << 4)),
          byte((packed[sub + 4] >> 4) | (packed[sub] >> 6 << 4))};
}

/// Widens `count` elements (whole blocks) stored as `type` at `data` into `out`. `data` needs no alignment; `type` must
/// be readable.
void gguf_dequantize(const GgmlTypeInfo& type, const std::byte* data, int64_t count, float* out);

}  // namespace quire
