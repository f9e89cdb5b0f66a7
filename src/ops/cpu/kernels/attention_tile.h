// The multiplications of attention on one tile of positions: scores from keys, and values weighted with probabilities.
//
// A score is summed over the features in ascending order in the lane of its position, a weighted value over the
// positions in ascending order in the lane of its feature. So neither depends on how many rows or panels a call takes:
// the shapes below only keep the accumulators in registers and the multipliers busy. With QUIRE_BF16_DOT two features,
// or two positions, are multiplied at once, as pairs of bfloat16: queries and probabilities are rounded to it.
#pragma once

#include "ops/cpu/kernels/attention.h"
#if defined(QUIRE_BF16_DOT)
#include "ops/cpu/kernels/bf16_pairs.h"
#endif
#include "ops/cpu/kernels/vec.h"

namespace quire::ops::cpu::QUIRE_ISA {

constexpr int kPanelVectors = kPanelPositions / kLanes;

/// What is multiplied at once: features of a key, positions of values.
#if defined(QUIRE_BF16_DOT)
constexpr int64_t kTogether = 2;
QUIRE_INLINE Vec add_product(Vec x, Vec y, Vec sum) { return dot_pairs(x, y, sum); }
#else
constexpr int64_t kTogether = 1;
QUIRE_INLINE Vec add_product(Vec x, Vec y, Vec sum) { return fma(x, y, sum); }
#endif

/// A type in which keys lie in the cache, or widened in scratch; Element is that of one value.
template <typename T>
struct Stored {
  using Element = T;
  static constexpr bool kInCache = true;
};
template <>
struct Stored<float> {
  using Element = float;
  static constexpr bool kInCache = false;  ///< float32 tiles are mostly scratch
};
#if defined(QUIRE_BF16_DOT)
template <>
struct Stored<Bf16Pair> {
  using Element = uint16_t;
  static constexpr bool kInCache = true;
};
#endif
template <typename T>
using Element = typename Stored<T>::Element;

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
      for (int v = 0; v < kVectors; ++v) sums[r][v] = add_product(by, vectors[v], sums[r][v]);
    }
  } else {
    Vec factors[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) factors[r] = factor(r);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const Vec x = vector(v);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sums[r][v] = add_product(factors[r], x, sums[r][v]);
    }
  }
}

/// Keys and values read from the cache itself are asked for one tile ahead: blocks lie anywhere, so the CPU's own
/// prefetcher has to start anew every few lines. Scratch is near anyway.
template <typename T>
QUIRE_INLINE void prefetch(const void* next) {
  if constexpr (Stored<T>::kInCache) __builtin_prefetch(next, 0, 2);
}

/// scores[r, p * 16 + i] = sum over k of queries[r, k] * panels[p][k, i], with k below `depth`, each standing for
/// kTogether features. Rows of scores are kTilePositions apart. `next` are the next tile's panels.
template <typename T, int kRows, int kPanels>
__attribute__((noinline)) void score_panels(const float* queries, int64_t depth, const T* const* panels,
                                            const T* const* next, float* scores) {
  constexpr int kVectors = kPanels * kPanelVectors;
  Vec sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[r][v] = zero();
  }
  constexpr int64_t kLinesApart = 64 / (kPanelPositions * static_cast<int64_t>(sizeof(T)));
  for (int64_t k = 0; k < depth; ++k) {
    if (kLinesApart <= 1 || k % kLinesApart == 0) {
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) prefetch<T>(next[p] + k * kPanelPositions);
    }
    multiply_add<kRows, kVectors>(
        sums, [&](int r) { return set1(queries[r * depth + k]); },
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
/// tile's positions are to be read. In scratch a row stands for kTogether positions.
template <typename T>
struct ValueTile {
  const Element<T>* runs[kTilePanels];
  const Element<T>* next_runs[kTilePanels];  ///< of the next tile
  int64_t stride;
  int64_t begin;
  int64_t end;
};

/// Rows of a run that stand for its positions.
template <typename T>
constexpr int64_t kRunRows = Stored<T>::kInCache ? kPanelPositions : kPanelPositions / kTogether;

#if defined(QUIRE_BF16_DOT)
/// kLanes features of a row of values and the next one, each feature's two side by side in its lane.
QUIRE_INLINE Vec value_pair(const uint16_t* row, int64_t stride) {
  const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
  const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + stride));
  return pair_halves(_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1));
}
QUIRE_INLINE Vec value_pair(const float* row, int64_t) { return load(row); }
#endif

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
  constexpr int64_t kStepRows = kRunRows<T> / (kPanelPositions / kTogether);  // from one step to the next
  int64_t step = tile.begin / kTogether;
  const int64_t last_step = (tile.end + kTogether - 1) / kTogether;
  while (step < last_step) {
    const int64_t run = step / (kPanelPositions / kTogether);
    const int64_t next_run = (run + 1) * (kPanelPositions / kTogether);
    const int64_t run_end = next_run < last_step ? next_run : last_step;
    const int64_t row = (step - run * (kPanelPositions / kTogether)) * kStepRows;
    const Element<T>* values = tile.runs[run] + row * tile.stride + feature;
    const Element<T>* next = tile.next_runs[run] + row * tile.stride + feature;
    for (; step < run_end; ++step, values += kStepRows * tile.stride, next += kStepRows * tile.stride) {
#pragma GCC unroll 2
      for (int64_t i = 0; i < kStepRows; ++i) {
        prefetch<T>(next + i * tile.stride);
        if constexpr (kVectors * kLanes * sizeof(Element<T>) > 64) {
          prefetch<T>(next + i * tile.stride + 64 / sizeof(Element<T>));
        }
      }
#if defined(QUIRE_BF16_DOT)
      // Of a pair only the positions in [begin, end) are read: the other's memory may hold anything.
      const uint32_t seen = (2 * step >= tile.begin ? 0xffffu : 0u) | (2 * step + 1 < tile.end ? 0xffff0000u : 0u);
      const __m512i mask = _mm512_set1_epi32(static_cast<int32_t>(seen));
      const auto vector = [&](int v) {
        const Vec pair = value_pair(values + v * kLanes, tile.stride);
        return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(pair), mask));
      };
#else
      const auto vector = [&](int v) { return load_as_float(values + v * kLanes); };
#endif
      multiply_add<kRows, kVectors>(
          totals, [&](int r) { return set1(weights[r * kTilePositions + step]); }, vector);
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
void score_rows(const float* queries, int64_t depth, const T* const* panels, const T* const* next, int64_t first,
                int64_t last, float* scores) {
  constexpr int kPanels = score_panels_at_once(kRows);
  int64_t panel = first;
  for (; panel + kPanels <= last; panel += kPanels) {
    score_panels<T, kRows, kPanels>(queries, depth, panels + panel, next + panel, scores + panel * kPanelPositions);
  }
  for (; panel < last; ++panel) {
    score_panels<T, kRows, 1>(queries, depth, panels + panel, next + panel, scores + panel * kPanelPositions);
  }
}

/// Weighted values of kRows rows for features [feature, features), a multiple of kLanes: as many vectors at a time as
/// there are, at most kVectors (a power of two).
template <typename T, int kRows, int kVectors = value_vectors_at_once(kRows)>
void weigh_rows(const float* weights, const ValueTile<T>& tile, int64_t feature, int64_t features, float* sums,
                int64_t sums_stride) {
  for (; feature + kVectors * kLanes <= features; feature += kVectors * kLanes) {
    add_weighted_values<T, kRows, kVectors>(weights, tile, feature, sums, sums_stride);
  }
  if constexpr (kVectors > 1) {
    if (feature < features) {
      weigh_rows<T, kRows, kVectors / 2>(weights, tile, feature, features, sums, sums_stride);
    }
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
