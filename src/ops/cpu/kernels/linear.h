// The kernels of a packed linear. Included by the kernels and by the op alike, so only C headers and no external inline
// code.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace quire::ops::cpu {

/// How weights are stored; all are widened to float32 to be multiplied.
enum class Storage : uint8_t { kFloat32, kBFloat16, kFloat16 };

/// Output channels of a panel.
constexpr int64_t kPanelChannels = 16;
/// Input features that the tiled kernel takes at a time; accumulators wait in memory between blocks, which is exact.
constexpr int64_t kBlockFeatures = 192;

/// out[r, n] = sum over k of x[r, k] * W[n, k], plus bias[n]; to accumulate,
/// out[r, n] = gain[n] * (out[r, n] + scale * sum) + bias[n]. Kernels with a prepare_row take rows that went through it
/// and count in_features in pairs.
struct LinearCall {
  const float* x;
  int64_t x_stride;
  int64_t rows;
  const void* panels;
  Storage storage;
  int64_t in_features;
  int64_t out_features;
  const float* bias;  ///< nullptr for none
  float* out;
  int64_t out_stride;
  bool accumulate;
  float scale;        ///< these two only to accumulate
  const float* gain;  ///< nullptr for 1
};

/// What one call of multiply_tiles covers. Rows are cut into `tile_count` tiles whose sizes differ by at most one row
/// (tile_begin()); `x_tiles` holds for each block of kBlockFeatures, for each tile: LinearKernels::tile_rows rows of
/// kBlockFeatures floats.
struct LinearTiles {
  const float* x_tiles;
  int64_t tile_count;  ///< of the whole call
  int64_t first_tile;  ///< tiles and panels of this task: [first, last)
  int64_t last_tile;
  int64_t first_panel;
  int64_t last_panel;
  float* scratch;  ///< tiled_scratch_floats() of this worker's own
};

/// Floats of scratch for a task of `rows` rows and `panels` panels: widened weights, and sums that wait.
[[maybe_unused]] static inline int64_t tiled_scratch_floats(int64_t rows, int64_t panels, int64_t tile_panels) {
  return (tile_panels * kBlockFeatures + rows * panels) * kPanelChannels;
}

/// The first row of tile `tile` when `rows` rows are cut into `tile_count` tiles.
[[maybe_unused]] static inline int64_t tile_begin(int64_t rows, int64_t tile_count, int64_t tile) {
  const int64_t size = rows / tile_count;
  const int64_t larger = rows % tile_count;
  return tile * size + (tile < larger ? tile : larger);
}

/// Source rows [0, lanes) become channels [first_lane, first_lane + lanes) of one panel.
struct PackCall {
  const void* source;  ///< first source row of this panel
  Storage source_storage;
  int64_t source_stride;  ///< elements
  int64_t features;
  void* panel;  ///< at the first input feature to be written
  Storage storage;
  int64_t first_lane;
  int64_t lanes;
};

struct LinearKernels {
  /// Up to this many rows, multiply_streaming is the faster.
  int64_t streaming_rows;
  int64_t streaming_panels;  ///< panels that it takes together at most; tasks of a multiple of it are the fastest
  int64_t tile_rows;
  int64_t tile_panels;

  /// Few rows (1 ... streaming_rows) with panels [first, last): each weight is read once, straight from memory.
  void (*multiply_streaming)(const LinearCall& call, int64_t first_panel, int64_t last_panel);
  /// Many rows: blocks of weights are widened once and used for many tiles of rows.
  void (*multiply_tiles)(const LinearCall& call, const LinearTiles& tiles);
  /// Rounds an even number of features to bfloat16, nearest even: each pair takes the place of one float. nullptr where
  /// rows are multiplied as they are.
  void (*prepare_row)(const float* x, int64_t features, float* prepared);
  void (*pack_panel)(const PackCall& call);
  /// Widens channel `lane` of `panel` into `out`.
  void (*gather_channel)(const void* panel, Storage storage, int64_t features, int64_t lane, float* out);
};

}  // namespace quire::ops::cpu
