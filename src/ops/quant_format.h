// How compressed weights are stored. Only C headers: kernels include it too.
#pragma once

#include <stdint.h>

namespace quire::ops {

/// Features that share a scale; in_features is filled up to a multiple with zeros.
constexpr int64_t kQuantGroup = 32;
/// Groups of a super-block of the K formats.
constexpr int64_t kSuperGroups = 8;

/// What a weight w is made of: q is unsigned; d and m are float16, of a group or (K formats) of eight; s and t are
/// whole numbers of a group, or of half a group (kQ6K).
enum class QuantFormat : uint8_t {
  kInt8,   ///< w = scale * (q - 128), with one float32 scale for a channel; rows have one scale as well
  kQ8,     ///< w = d * (q - 128)
  kQ4,     ///< w = d * (q - 8)
  kQ4Min,  ///< w = d * q + m
  kQ4K,    ///< w = d * s * q + m * t
  kQ6K,    ///< w = d * s * (q - 32)
};

}  // namespace quire::ops
