// Paged attention over one segment of positions, the merge of segments, and rounding into the cache.
//
// A row's result is built from operations whose order depends on absolute positions alone: a position that the row does
// not see is left out of its sums, never multiplied by zero, so that neither stale memory nor another row's keys can
// reach it.
#include "ops/cpu/kernels/attention.h"

#include "ops/cpu/kernels/attention_tile.h"
#include "ops/cpu/kernels/vec_math.h"

namespace quire::ops::cpu::QUIRE_ISA {
namespace {

/// Positions [begin, end) of a tile, counted from its first.
struct Range {
  int64_t begin;
  int64_t end;
  bool empty() const { return begin >= end; }
};

/// A tile's keys and values, in the cache itself or widened in scratch.
template <typename T>
struct Tile {
  const T* panels[kTilePanels];
  const T* next_panels[kTilePanels];  ///< of the next tile
  ValueTile<T> values;                ///< its range is set for each use
  int64_t features;                   ///< of a row of values, a multiple of kLanes
};

QUIRE_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
QUIRE_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/// What a query at `position` sees of the tile that begins at `tile_begin`.
QUIRE_INLINE Range visible(int64_t position, int64_t window, int64_t tile_begin) {
  const int64_t first = window > 0 ? larger(0, position - window + 1) : 0;
  return {larger(0, first - tile_begin), smaller(kTilePositions, position + 1 - tile_begin)};
}

QUIRE_INLINE const unsigned char* block_of(const KvHead& head, const unsigned char* base, int64_t position) {
  return base + static_cast<size_t>(head.blocks[position / head.block_size]) * head.block_bytes;
}

/// Points `tile` at the panels and runs of the cache that hold positions of `range`.
template <typename T>
void locate(const KvHead& head, int64_t tile_begin, Range range, Tile<T>& tile) {
  tile.features = head.v_dim;
  tile.values.stride = head.v_dim;
  for (int64_t i = range.begin / kPanelPositions; i * kPanelPositions < range.end; ++i) {
    const int64_t position = tile_begin + i * kPanelPositions;
    const int64_t offset = position % head.block_size;
    const auto* const keys = reinterpret_cast<const Element<T>*>(block_of(head, head.keys, position));
    tile.panels[i] = reinterpret_cast<const T*>(keys + offset * head.k_dim);
    tile.values.runs[i] =
        reinterpret_cast<const Element<T>*>(block_of(head, head.values, position)) + offset * head.v_dim;
  }
}

/// Sets what is to be prefetched during `tile`; where `range` of the next tile holds nothing, the tile itself.
template <typename T>
void locate_next(const KvHead& head, int64_t next_begin, Range range, Tile<T>& tile) {
  Tile<T> next = tile;
  if (!range.empty()) locate(head, next_begin, range, next);
  memcpy(tile.next_panels, next.panels, sizeof(next.panels));
  memcpy(tile.values.next_runs, next.values.runs, sizeof(next.values.runs));
}

/// Copies `count` values and fills up with zeros to a whole vector, widened.
template <typename T>
QUIRE_INLINE Vec load_tail(const T* values, int64_t count) {
  T padded[kLanes];
  memset(padded, 0, sizeof(padded));
  memcpy(padded, values, static_cast<size_t>(count) * sizeof(T));
  return load_as_float(padded);
}

template <typename T>
void widen_row(const T* source, int64_t count, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(out + i, load_as_float(source + i));
  if (i < count) {
    store(out + i, load_tail(source + i, count - i));
    i += kLanes;
  }
  for (; i < padded_dim(count); i += kLanes) store(out + i, zero());
}

/// Prepares the positions of `range` to be multiplied, in scratch: widened to float32, or paired.
template <typename T>
void widen(const Tile<T>& from, int64_t k_dim, int64_t v_dim, Range range, const AttentionScratch& scratch,
           Tile<float>& tile) {
  const int64_t stride = padded_dim(v_dim);
  const int64_t panel_size = k_dim / kTogether * kPanelPositions;
  tile.features = stride;
  tile.values.stride = stride;
  for (int64_t i = range.begin / kPanelPositions; i * kPanelPositions < range.end; ++i) {
    float* panel = scratch.keys + i * panel_size;
    widen_row(from.panels[i], panel_size, panel);
    tile.panels[i] = panel;
    tile.next_panels[i] = panel;
    tile.values.runs[i] = scratch.values + i * kRunRows<float> * stride;
    tile.values.next_runs[i] = tile.values.runs[i];
  }
  for (int64_t row = range.begin / kTogether; row * kTogether < range.end; ++row) {
    const int64_t run = row / kRunRows<float>;
    const Element<T>* source = from.values.runs[run] + (row - run * kRunRows<float>)*kTogether * v_dim;
#if defined(QUIRE_BF16_DOT)
    for (int64_t i = 0; i < v_dim; i += kLanes) {
      store(scratch.values + row * stride + i, value_pair(source + i, v_dim));
    }
#else
    widen_row(source, v_dim, scratch.values + row * stride);
#endif
  }
}

/// Rows whose softmax goes side by side.
constexpr int kSoftmaxRows = 3;

QUIRE_INLINE float exp_of(float x) { return first_lane(exp(set1(x))); }

/// exp of kTogether vectors of scores; kept where they lay, or rounded in half the room.
QUIRE_INLINE void store_weights(const Vec (&weights)[kTogether], int64_t i, float* scores) {
#if defined(QUIRE_BF16_DOT)
  const __m512bh rounded = _mm512_cvtne2ps_pbh(weights[1], weights[0]);
  _mm512_storeu_si512(scores + i / 2, reinterpret_cast<__m512i>(rounded));
#else
  store(scores + i, weights[0]);
#endif
}

/// update_softmax for scores [first, last) of the tile, whole steps of kTogether vectors, of kRows rows: side by side,
/// since one row alone is a long chain of operations that wait for each other.
template <int kRows>
QUIRE_INLINE void update_softmax_over(float* scores, int64_t first, int64_t last, const SoftmaxState& state,
                                      int64_t row, int64_t stride) {
  Vec shift[kRows];
  Vec total[kRows];
  float maximum[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    Vec highest = set1(state.maximum[row + r]);
#pragma GCC unroll 16
    for (int64_t i = first; i < last; i += kLanes) highest = max(load(scores + r * kTilePositions + i), highest);
    maximum[r] = reduce_max(highest);
    shift[r] = set1(maximum[r]);
    total[r] = zero();
  }
#pragma GCC unroll 16
  for (int64_t i = first; i < last; i += kTogether * kLanes) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      float* const row_scores = scores + r * kTilePositions;
      Vec weights[kTogether];
#pragma GCC unroll 2
      for (int64_t j = 0; j < kTogether; ++j) {
        const Vec distance = sub(load(row_scores + i + j * kLanes), shift[r]);
        weights[j] = exp_of_negative(distance);
        total[r] = add(total[r], fma(distance, zero(), weights[j]));
      }
      store_weights(weights, i, row_scores);
    }
  }
  // Without a branch on whether the maximum has changed, which no CPU can foresee: if it has not, the factor is 1.
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const Vec factor = exp_of_negative(set1(state.maximum[row + r] - maximum[r]));
    for (int64_t i = 0; i < stride; i += kLanes) {
      float* const values = state.values + (row + r) * stride + i;
      store(values, mul(load(values), factor));
    }
    state.sum[row + r] = state.sum[row + r] * first_lane(factor) + reduce_add(total[r]);
    state.maximum[row + r] = maximum[r];
  }
}

/// scores = softcap * tanh(scores / softcap), for `rows` rows.
void cap_scores(float* scores, Range range, float softcap, int64_t rows) {
  const Vec cap = set1(softcap);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = range.begin; i < range.end; i += kLanes) {
      float* const place = scores + r * kTilePositions + i;
      store(place, mul(cap, tanh(div(load(place), cap))));
    }
  }
}

/// Turns scores of the tile into weights relative to their row's new maximum, and updates the state, for `rows` rows;
/// `range` covers what they see, scores that a row does not see are kNoScore and get weight 0. A score that is not
/// finite makes the sum NaN, so that it shows in the output.
void update_softmax(float* scores, Range range, const SoftmaxState& state, int64_t row, int64_t rows, int64_t stride) {
  int64_t r = 0;
  if (range.begin == 0 && range.end == kTilePositions) {
    for (; r + kSoftmaxRows <= rows; r += kSoftmaxRows) {
      update_softmax_over<kSoftmaxRows>(scores + r * kTilePositions, 0, kTilePositions, state, row + r, stride);
    }
  }
  for (; r < rows; ++r) {
    update_softmax_over<1>(scores + r * kTilePositions, range.begin, range.end, state, row + r, stride);
  }
}

template <typename T>
struct ScoreCall {
  const float* queries;
  int64_t depth;
  const T* const* panels;
  const T* const* next;
  int64_t first;
  int64_t last;
  float* scores;
  template <int kRows>
  __attribute__((always_inline)) inline void run() const {
    score_rows<T, kRows>(queries, depth, panels, next, first, last, scores);
  }
};

template <typename T>
struct WeighCall {
  const float* weights;
  const ValueTile<T>* tile;
  int64_t features;
  float* sums;
  int64_t stride;
  template <int kRows>
  __attribute__((always_inline)) inline void run() const {
    weigh_rows<T, kRows>(weights, *tile, 0, features, sums, stride);
  }
};

/// Adds the weighted values of the positions in `range` to rows [begin, end); `weights` are those of row `begin`.
template <typename T>
void weigh(const Tile<T>& tile, Range range, int64_t begin, int64_t end, const float* weights,
           const SoftmaxState& state, int64_t stride) {
  if (range.empty()) return;
  ValueTile<T> values = tile.values;
  values.begin = range.begin;
  values.end = range.end;
  for (int64_t row = begin; row < end; row += kMaxRows) {
    const WeighCall<T> call{weights + (row - begin) * kTilePositions, &values, tile.features,
                            state.values + row * stride, stride};
    with_rows(smaller(kMaxRows, end - row), call);
  }
}

/// A pass: rows [begin, end) of tokens [first_token, last_token], at most kPassRows.
struct Pass {
  int64_t begin;
  int64_t end;
  int64_t first_token;
  int64_t last_token;
};

/// All rows of the unit on one tile, kPassRows at a time.
template <typename T>
class TileAttention {
 public:
  TileAttention(const Tile<T>& tile, const QueryRows& rows, int64_t k_dim, int64_t stride, int64_t tile_begin,
                const AttentionScratch& scratch, const SoftmaxState& state)
      : tile_(tile),
        rows_(rows),
        depth_(k_dim / kTogether),
        stride_(stride),
        tile_begin_(tile_begin),
        scratch_(scratch),
        state_(state) {}

  void attend() const {
    const int64_t count = rows_.tokens * rows_.heads;
    for (int64_t begin = 0; begin < count; begin += kPassRows) {
      const int64_t end = smaller(begin + kPassRows, count);
      Pass pass{begin, end, begin / rows_.heads, (end - 1) / rows_.heads};
      // Tokens before the tile see nothing of it, nor do those whose window begins after it.
      while (pass.first_token <= pass.last_token && seen_by(pass.first_token).empty()) ++pass.first_token;
      while (pass.first_token <= pass.last_token && seen_by(pass.last_token).empty()) --pass.last_token;
      if (pass.first_token > pass.last_token) continue;
      pass.begin = larger(begin, pass.first_token * rows_.heads);
      pass.end = smaller(end, (pass.last_token + 1) * rows_.heads);
      attend_pass(pass);
    }
  }

 private:
  Range seen_by(int64_t token) const { return visible(rows_.first_position + token, rows_.window, tile_begin_); }

  void attend_pass(const Pass& pass) const {
    const Range first = seen_by(pass.first_token);
    const Range last = seen_by(pass.last_token);
    const Range any{first.begin, last.end};
    float* const scores = scratch_.scores;
    for (int64_t row = pass.begin; row < pass.end; row += kMaxRows) {
      const ScoreCall<T> call{scratch_.queries + row * depth_,
                              depth_,
                              tile_.panels,
                              tile_.next_panels,
                              any.begin / kPanelPositions,
                              (any.end + kPanelPositions - 1) / kPanelPositions,
                              scores + (row - pass.begin) * kTilePositions};
      with_rows(smaller(kMaxRows, pass.end - row), call);
    }
    constexpr int64_t kStep = kTogether * kLanes;
    const Range steps{any.begin / kStep * kStep, (any.end + kStep - 1) / kStep * kStep};
    if (rows_.softcap > 0.0f) cap_scores(scores, steps, rows_.softcap, pass.end - pass.begin);
    for_tokens(pass, [&](int64_t token, int64_t begin, int64_t end) {
      const Range range = seen_by(token);
      for (float* row = scores + (begin - pass.begin) * kTilePositions;
           row < scores + (end - pass.begin) * kTilePositions; row += kTilePositions) {
        for (int64_t i = steps.begin; i < range.begin; ++i) row[i] = kNoScore;
        for (int64_t i = range.end; i < steps.end; ++i) row[i] = kNoScore;
      }
    });
    update_softmax(scores, steps, state_, pass.begin, pass.end - pass.begin, stride_);
    // What all see is weighed for all rows at once, what only some see for each token; every row in order of positions.
    const int64_t all_begin = (last.begin + kTogether - 1) / kTogether * kTogether;
    const int64_t all_end = first.end / kTogether * kTogether;
    if (last.begin == any.begin && first.end == any.end) {
      weigh(tile_, any, pass.begin, pass.end, scores, state_, stride_);
      return;
    }
    const bool some_common = all_begin < all_end;
    weigh_by_token(pass, 0, some_common ? all_begin : kTilePositions);
    if (!some_common) return;
    weigh(tile_, {all_begin, all_end}, pass.begin, pass.end, scores, state_, stride_);
    weigh_by_token(pass, all_end, kTilePositions);
  }

  /// The values of positions [from, to) as far as each token sees them.
  void weigh_by_token(const Pass& pass, int64_t from, int64_t to) const {
    for_tokens(pass, [&](int64_t token, int64_t begin, int64_t end) {
      const Range range = seen_by(token);
      weigh(tile_, {larger(range.begin, from), smaller(range.end, to)}, begin, end,
            scratch_.scores + (begin - pass.begin) * kTilePositions, state_, stride_);
    });
  }

  /// Calls use(token, begin, end) with each token and its rows in the pass.
  template <typename Use>
  void for_tokens(const Pass& pass, const Use& use) const {
    for (int64_t token = pass.first_token; token <= pass.last_token; ++token) {
      use(token, larger(pass.begin, token * rows_.heads), smaller(pass.end, (token + 1) * rows_.heads));
    }
  }

  const Tile<T>& tile_;
  const QueryRows& rows_;
  const int64_t depth_;
  const int64_t stride_;
  const int64_t tile_begin_;
  const AttentionScratch& scratch_;
  const SoftmaxState& state_;
};

void clear_state(int64_t rows, int64_t stride, const SoftmaxState& state) {
  for (int64_t row = 0; row < rows; ++row) {
    state.maximum[row] = kNoScore;
    state.sum[row] = 0.0f;
  }
  memset(state.values, 0, static_cast<size_t>(rows * stride) * sizeof(float));
}

/// Few rows read the cache as it lies and widen in registers; many have each tile widened once.
template <typename T>
void attend_segment_as(const KvHead& head, const QueryRows& rows, int64_t segment, const AttentionScratch& scratch,
                       const SoftmaxState& state) {
  const int64_t count = rows.tokens * rows.heads;
  const int64_t stride = padded_dim(head.v_dim);
  clear_state(count, stride, state);
  const bool direct = head.v_dim % kLanes == 0 && (!Stored<T>::kInCache || count <= 2 * kMaxRows);
  const int64_t first_seen = rows.window > 0 ? larger(0, rows.first_position - rows.window + 1) : 0;
  const int64_t end = smaller((segment + 1) * kSegmentPositions, rows.first_position + rows.tokens);
  const auto span = [first_seen, end](int64_t tile_begin) {
    return Range{larger(0, first_seen - tile_begin), smaller(kTilePositions, end - tile_begin)};
  };
  for (int64_t tile_begin = segment * kSegmentPositions; tile_begin < end; tile_begin += kTilePositions) {
    const Range range = span(tile_begin);
    if (range.empty()) continue;
    Tile<T> stored{};
    locate(head, tile_begin, range, stored);
    if (direct) {
      locate_next(head, tile_begin + kTilePositions, span(tile_begin + kTilePositions), stored);
      TileAttention(stored, rows, head.k_dim, stride, tile_begin, scratch, state).attend();
      continue;
    }
    Tile<float> widened;
    widen(stored, head.k_dim, head.v_dim, range, scratch, widened);
    TileAttention(widened, rows, head.k_dim, stride, tile_begin, scratch, state).attend();
  }
}

void attend_segment(const KvHead& head, const QueryRows& rows, int64_t segment, const AttentionScratch& scratch,
                    const SoftmaxState& state) {
#if defined(QUIRE_BF16_DOT)
  attend_segment_as<Bf16Pair>(head, rows, segment, scratch, state);
#else
  switch (head.storage) {
    case CacheStorage::kFloat32:
      return attend_segment_as<float>(head, rows, segment, scratch, state);
    case CacheStorage::kBFloat16:
      return attend_segment_as<BFloat16>(head, rows, segment, scratch, state);
    case CacheStorage::kFloat16:
      return attend_segment_as<Float16>(head, rows, segment, scratch, state);
  }
#endif
}

void load_queries(const QueryRows& rows, int64_t k_dim, float* queries) {
  for (int64_t token = 0; token < rows.tokens; ++token) {
    for (int64_t head = 0; head < rows.heads; ++head) {
      const float* source = rows.queries + token * rows.token_stride + head * k_dim;
      // Rounded rows take half the room: those that follow have not been written yet.
      for (int64_t i = 0; i < k_dim; ++i) queries[i] = source[i] * rows.scale;
#if defined(QUIRE_BF16_DOT)
      round_to_pairs(queries, k_dim, queries);
#endif
      queries += k_dim / kTogether;
    }
  }
}

void merge_states(int64_t rows, int64_t v_dim, const SoftmaxState& next, const SoftmaxState& state) {
  const int64_t stride = padded_dim(v_dim);
  for (int64_t row = 0; row < rows; ++row) {
    float* values = state.values + row * stride;
    const float* next_values = next.values + row * stride;
    if (next.maximum[row] == kNoScore) continue;
    if (state.maximum[row] == kNoScore) {
      memcpy(values, next_values, static_cast<size_t>(stride) * sizeof(float));
      state.maximum[row] = next.maximum[row];
      state.sum[row] = next.sum[row];
      continue;
    }
    const float maximum = next.maximum[row] > state.maximum[row] ? next.maximum[row] : state.maximum[row];
    const float factor = exp_of(state.maximum[row] - maximum);
    const float next_factor = exp_of(next.maximum[row] - maximum);
    state.maximum[row] = maximum;
    state.sum[row] = state.sum[row] * factor + next.sum[row] * next_factor;
    for (int64_t i = 0; i < stride; i += kLanes) {
      store(values + i, fma(load(next_values + i), set1(next_factor), mul(load(values + i), set1(factor))));
    }
  }
}

void write_output(const QueryRows& rows, int64_t v_dim, const SoftmaxState& state, float* out,
                  int64_t out_token_stride) {
  const int64_t stride = padded_dim(v_dim);
  for (int64_t row = 0; row < rows.tokens * rows.heads; ++row) {
    const float* values = state.values + row * stride;
    float* target = out + row / rows.heads * out_token_stride + row % rows.heads * v_dim;
    const float factor = 1.0f / state.sum[row];
    for (int64_t i = 0; i < v_dim; ++i) target[i] = values[i] * factor;
  }
}

/// Calls use(index, values, count) with runs of up to kLanes values rounded to T.
template <typename T, typename Use>
QUIRE_INLINE void round_values(const float* source, int64_t count, const Use& use) {
  T rounded[kLanes];
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t run = smaller(kLanes, count - i);
    store_from_float(rounded, run == kLanes ? load(source + i) : load_tail(source + i, run));
    use(i, rounded, run);
  }
}

template <typename T>
void store_token_as(const StoreCall& call) {
  const int64_t panel = call.offset / kPanelPositions;
  const int64_t lane = call.offset % kPanelPositions;
  for (int64_t head = 0; head < call.kv_heads; ++head) {
    T* keys = reinterpret_cast<T*>(call.key_block) + head * call.block_size * call.k_dim +
              panel * call.k_dim * kPanelPositions + lane;
    round_values<T>(call.keys + head * call.k_dim, call.k_dim, [keys](int64_t feature, const T* values, int64_t run) {
      for (int64_t i = 0; i < run; ++i) keys[(feature + i) * kPanelPositions] = values[i];
    });
    T* row = reinterpret_cast<T*>(call.value_block) + (head * call.block_size + call.offset) * call.v_dim;
    round_values<T>(call.values + head * call.v_dim, call.v_dim, [row](int64_t feature, const T* values, int64_t run) {
      memcpy(row + feature, values, static_cast<size_t>(run) * sizeof(T));
    });
  }
}

void store_token(const StoreCall& call) {
  switch (call.storage) {
    case CacheStorage::kFloat32:
      return store_token_as<float>(call);
    case CacheStorage::kBFloat16:
      return store_token_as<BFloat16>(call);
    case CacheStorage::kFloat16:
      return store_token_as<Float16>(call);
  }
}

}  // namespace

extern const AttentionKernels attention_kernels;
const AttentionKernels attention_kernels = {load_queries, attend_segment, merge_states, write_output, store_token};

}  // namespace quire::ops::cpu::QUIRE_ISA
