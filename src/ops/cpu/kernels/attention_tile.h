// The multiplications of attention on one tile of positions: scores from keys, and values weighted with probabilities.
//
// A score is summed over the features in ascending order in the lane of its position, a weighted value over the
// positions in ascending order in the lane of its feature. So neither depends on how many rows or panels a call takes:
// the shapes below only keep the accumulators in registers and the multipliers busy.
#pragma once

#include "ops/cpu/kernels/attention.h"
#include "ops/cpu/kernels/vec.h"

namespace quire::ops::cpu::QUIRE_ISA {

constexpr int kPanelVectors = kPanelPositions / kLanes;

#if defined(QUIRE_ISA_avx512)
constexpr int kMaxRows = 12;
constexpr int score_panels_at_once(int rows) { return rows <= 6 ? 4 : 2; }
constexpr int value_vectors_at_once(int rows) { return rows <= 3 ? 8 : rows <= 6 ? 4 : 2; }
#elif defined(QUIRE_ISA_avx2)
constexpr int kMaxRows = 6;
constexpr int score_panels_at_once(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }
constexpr int value_vectors_at_once(int rows) { return rows == 1 ? 8 : rows <= 3 ? 4 : 2; }
#else
constexpr int kMaxRows = 3;
constexpr int score_panels_at_once(int rows) { return rows == 1 ? 2 : 1; }
constexpr int value_vectors_at_once(int rows) { return rows == 1 ? 8 : 4; }
#endif

/// sums[r][v] += factor(r) * vector(v). The smaller of the two sets is held in registers while the other passes by: so
/// the accumulators never leave theirs.
template <int kRows, int kVectors, typename Factor, typename Vector>
QUIRE_INLINE void multiply_add(Vec (&sums)[kRows][kVectors], const Factor& factor, const Vector& vector) {
  if constexpr (kRows > kVectors) {
    Vec vectors[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) vectors[v] = vector(v);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vec by = factor(r);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[r][v] = fma(by, vectors[v], sums[r][v]);
    }
  } else {
    Vec factors[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) factors[r] = factor(r);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const Vec x = vector(v);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sums[r][v] = fma(factors[r], x, sums[r][v]);
    }
  }
}

/// Keys and values read from the cache itself are asked for one tile ahead: blocks lie anywhere, so the CPU's own
/// prefetcher has to start anew every few lines. Float32 tiles are mostly scratch, which is near anyway.
template <typename T>
QUIRE_INLINE void prefetch(const T* next) {
  if constexpr (sizeof(T) < sizeof(float)) __builtin_prefetch(next, 0, 2);
}

/// scores[r, p * 16 + i] = sum over k of queries[r, k] * panels[p][k, i]. Rows of scores are kTilePositions apart.
/// `next` are the next tile's panels.
template <typename T, int kRows, int kPanels>
__attribute__((noinline)) void score_panels(const float* queries, int64_t k_dim, const T* const* panels,
                                            const T* const* next, float* scores) {
  constexpr int kVectors = kPanels * kPanelVectors;
  Vec sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[r][v] = zero();
  }
  for (int64_t k = 0; k < k_dim; ++k) {
    if (k % 2 == 0) {
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) prefetch(next[p] + k * kPanelPositions);
    }
    multiply_add<kRows, kVectors>(
        sums, [&](int r) { return set1(queries[r * k_dim + k]); },
        [&](int v) {
          return load_as_float(panels[v / kPanelVectors] + k * kPanelPositions + (v % kPanelVectors) * kLanes);
        });
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) store(scores + r * kTilePositions + v * kLanes, sums[r][v]);
  }
}

/// Values of a tile: `runs[i]` holds rows of positions [16 i, 16 i + 16), `stride` elements apart; [begin, end) of the
/// tile's positions are to be read.
template <typename T>
struct ValueTile {
  const T* runs[kTilePanels];
  const T* next_runs[kTilePanels];  ///< of the next tile
  int64_t stride;
  int64_t begin;
  int64_t end;
};

/// sums[r, f] += sum over positions of weights[r, position] * value[position, f], for kVectors vectors of features from
/// `feature` on. Rows of weights are kTilePositions apart, rows of sums `sums_stride`.
template <typename T, int kRows, int kVectors>
__attribute__((noinline)) void add_weighted_values(const float* weights, const ValueTile<T>& tile, int64_t feature,
                                                   float* sums, int64_t sums_stride) {
  Vec totals[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) totals[r][v] = load(sums + r * sums_stride + feature + v * kLanes);
  }
  int64_t position = tile.begin;
  while (position < tile.end) {
    const int64_t run = position / kPanelPositions;
    const int64_t run_end = (run + 1) * kPanelPositions < tile.end ? (run + 1) * kPanelPositions : tile.end;
    const int64_t offset = (position - run * kPanelPositions) * tile.stride + feature;
    const T* values = tile.runs[run] + offset;
    const T* next = tile.next_runs[run] + offset;
    for (; position < run_end; ++position, values += tile.stride, next += tile.stride) {
      prefetch(next);
      if constexpr (kVectors * kLanes * sizeof(T) > 64) prefetch(next + 64 / sizeof(T));
      multiply_add<kRows, kVectors>(
          totals, [&](int r) { return set1(weights[r * kTilePositions + position]); },
          [&](int v) { return load_as_float(values + v * kLanes); });
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) store(sums + r * sums_stride + feature + v * kLanes, totals[r][v]);
  }
}

/// Scores of kRows rows for panels [first, last).
template <typename T, int kRows>
void score_rows(const float* queries, int64_t k_dim, const T* const* panels, const T* const* next, int64_t first,
                int64_t last, float* scores) {
  constexpr int kPanels = score_panels_at_once(kRows);
  int64_t panel = first;
  for (; panel + kPanels <= last; panel += kPanels) {
    score_panels<T, kRows, kPanels>(queries, k_dim, panels + panel, next + panel, scores + panel * kPanelPositions);
  }
  for (; panel < last; ++panel) {
    score_panels<T, kRows, 1>(queries, k_dim, panels + panel, next + panel, scores + panel * kPanelPositions);
  }
}

/// Weighted values of kRows rows for features [0, features), a multiple of kLanes.
template <typename T, int kRows>
void weigh_rows(const float* weights, const ValueTile<T>& tile, int64_t features, float* sums, int64_t sums_stride) {
  constexpr int kVectors = value_vectors_at_once(kRows);
  int64_t feature = 0;
  for (; feature + kVectors * kLanes <= features; feature += kVectors * kLanes) {
    add_weighted_values<T, kRows, kVectors>(weights, tile, feature, sums, sums_stride);
  }
  for (; feature < features; feature += kLanes) {
    add_weighted_values<T, kRows, 1>(weights, tile, feature, sums, sums_stride);
  }
}

/// Calls Call::run<rows>() for a number of rows that is known only now.
template <typename Call, int kRows = kMaxRows>
QUIRE_INLINE void with_rows(int64_t rows, const Call& call) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      with_rows<Call, kRows - 1>(rows, call);
      return;
    }
  }
  call.template run<kRows>();
}

}  // namespace quire::ops::cpu::QUIRE_ISA
