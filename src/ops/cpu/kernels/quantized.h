// The kernels of a linear whose weights stay compressed. Included by the kernels and by the op alike, so only C headers
// and no external inline code.
//
// Rows are rounded to signed bytes with a scale of their own, for each group of kQuantGroup features or for the whole
// row; weights are unsigned bytes, less a constant offset. So a dot product of bytes is exact, and what is rounded,
// scaled and added per group happens in one order for any number of rows.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ops/quant_format.h"

namespace quire::ops::cpu {

/// Most rows that a tile can have in any ISA.
constexpr int64_t kMostQuantTileRows = 12;

// The 16 channels of a panel lie side by side. A group of 32 features is eight times 64 bytes, each with four features
// of 16 channels; or, of nibbles, four times 64 bytes, whose low nibbles are the first sixteen features and whose high
// ones the others. What follows them, 16 of each, one for each channel:
//   kInt8: behind all groups, float32 scales             kQ4K: in front of 8 groups d and m; behind each group s and t
//   kQ8, kQ4: d; kQ4Min: d and m                         kQ6K: in front of 8 groups d; behind each group's nibbles 128
//                                                        bytes of bit pairs, s of its first half, s of the other

/// Whether rows have a scale for each group (or one for all).
[[maybe_unused]] static inline bool scales_groups(QuantFormat format) { return format != QuantFormat::kInt8; }

/// Bytes of one group with what belongs to it alone.
[[maybe_unused]] static inline int64_t quant_group_bytes(QuantFormat format) {
  switch (format) {
    case QuantFormat::kInt8:
      return 512;
    case QuantFormat::kQ8:
      return 512 + 32;
    case QuantFormat::kQ4:
      return 256 + 32;
    case QuantFormat::kQ4Min:
      return 256 + 64;
    case QuantFormat::kQ4K:
      return 256 + 32;
    case QuantFormat::kQ6K:
      return 256 + 128 + 32;
  }
  return 0;
}

/// Bytes in front of every kSuperGroups groups.
[[maybe_unused]] static inline int64_t quant_super_bytes(QuantFormat format) {
  return format == QuantFormat::kQ4K ? 64 : format == QuantFormat::kQ6K ? 32 : 0;
}

[[maybe_unused]] static inline int64_t quant_groups(int64_t in_features) {
  return (in_features + kQuantGroup - 1) / kQuantGroup;
}

/// Where group `group` of a panel begins.
[[maybe_unused]] static inline int64_t quant_group_offset(QuantFormat format, int64_t group) {
  return group * quant_group_bytes(format) + (group / kSuperGroups + 1) * quant_super_bytes(format);
}

[[maybe_unused]] static inline int64_t quant_panel_bytes(QuantFormat format, int64_t in_features) {
  const int64_t groups = quant_groups(in_features);
  const int64_t supers = (groups + kSuperGroups - 1) / kSuperGroups;
  return groups * quant_group_bytes(format) + supers * quant_super_bytes(format) +
         (format == QuantFormat::kInt8 ? 64 : 0);
}

/// What a tile of rows holds for each group and row besides its 32 bytes, 4 bytes each: sums of the bytes times the
/// offsets, negated (of offset 128, of 8, and of 32 for each half of the group), the scale, and the scale times the
/// sum.
constexpr int64_t kTileSum128 = 0;
constexpr int64_t kTileSum8 = 1;
constexpr int64_t kTileSum32 = 2;
constexpr int64_t kTileScale = 4;
constexpr int64_t kTileScaledSum = 5;
constexpr int64_t kTileWords = 6;

/// Bytes of a tile of `rows` rows. With group scales: group by group the bytes (four features of all rows, then the
/// next four) and kTileWords words, each of all rows. With row scales: the bytes of all groups, then a sum (times 128,
/// negated) and a scale of all rows.
[[maybe_unused]] static inline int64_t quant_tile_bytes(bool group_scales, int64_t rows, int64_t in_features) {
  const int64_t groups = quant_groups(in_features);
  return group_scales ? groups * rows * (kQuantGroup + kTileWords * 4) : rows * (groups * kQuantGroup + 8);
}

/// Some panels with all tiles of rows.
struct QuantizedCall {
  QuantFormat format;
  const uint8_t* panels;
  int64_t in_features;
  int64_t out_features;
  const uint8_t* tiles;  ///< quant_tile_bytes() of `tile_rows` full rows apart
  int64_t tile_stride;
  int64_t tile_count;
  int64_t rows;       ///< cut into tile_count tiles by tile_begin()
  const float* bias;  ///< nullptr for none
  float* out;
  int64_t out_stride;
};

struct QuantizedKernels {
  int64_t tile_rows;  ///< most rows of a tile
  /// Rounds `rows` (at most tile_rows) rows to bytes. A row or group with an infinite or NaN value gets a NaN as scale.
  void (*quantize_tile)(const float* x, int64_t x_stride, int64_t rows, int64_t in_features, bool group_scales,
                        uint8_t* tile);
  /// Tiles [first_tile, last_tile) with panels [first_panel, last_panel).
  void (*multiply)(const QuantizedCall& call, int64_t first_tile, int64_t last_tile, int64_t first_panel,
                   int64_t last_panel);
};

}  // namespace quire::ops::cpu
