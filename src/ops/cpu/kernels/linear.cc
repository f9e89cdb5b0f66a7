// Rows times packed weights. Every output is one chain: a single lane adds x[k] * W[k] for k ascending, from zero, by
// fused multiply-add (where the ISA has it), whatever the number of rows and whichever kernel runs: so all give the
// same bits. With QUIRE_BF16_DOT a "feature" is a pair of bfloat16 features and the addition is vdpbf16ps.
#include "ops/cpu/kernels/linear.h"

#if defined(QUIRE_BF16_DOT)
#include "ops/cpu/kernels/bf16_pairs.h"
#else
#include "ops/cpu/kernels/panel_packing.h"
#endif
#include "ops/cpu/kernels/repeat.h"
#include "ops/cpu/kernels/vec.h"

namespace quire::ops::cpu::QUIRE_ISA {

// Tile shapes: as many sums as the registers hold besides a row's factor and the weights of one feature.
#if defined(QUIRE_ISA_avx512)
constexpr int kTileRows = 12;
constexpr int kTilePanels = 2;
constexpr int kStreamingRows = 24;
#elif defined(QUIRE_ISA_avx2)
constexpr int kTileRows = 6;
constexpr int kTilePanels = 1;
constexpr int kStreamingRows = 6;
#else
constexpr int kTileRows = 3;
constexpr int kTilePanels = 1;
constexpr int kStreamingRows = 3;
#endif

constexpr int kPanelVecs = static_cast<int>(kPanelChannels) / kLanes;
/// Panels that are read side by side for `rows` rows: enough sums to hide the latency of an addition.
constexpr int streaming_panels(int rows) {
  return rows == 1 ? 4 : rows <= kTileRows / 2 ? 2 * kTilePanels : rows <= kTileRows ? kTilePanels : 1;
}
/// Bytes ahead of the reader that streamed weights are fetched.
constexpr int64_t kPrefetchBytes = 2048;
/// Features between two prefetches.
constexpr int64_t kPrefetchFeatures = 4;
constexpr int64_t kLineBytes = 64;

/// How one step of a chain adds a row's factor times weights stored as T.
template <typename T>
struct Product {
  static inline __attribute__((always_inline)) Vec add(Vec x, Vec weight, Vec sum) { return fma(x, weight, sum); }
};
/// Whether weights of T are turned into another form to be multiplied.
template <typename T>
constexpr bool kNeedsWidening = true;
template <>
constexpr bool kNeedsWidening<float> = false;
#if defined(QUIRE_BF16_DOT)
template <>
struct Product<Bf16Pair> {
  static inline __attribute__((always_inline)) Vec add(Vec x, Vec weight, Vec sum) { return dot_pairs(x, weight, sum); }
};
#endif

template <int kRows, int kPanels>
struct Sums {
  Vec v[kRows * kPanels * kPanelVecs];  ///< row by row
};

template <int kRows, int kPanels>
QUIRE_INLINE void clear(Sums<kRows, kPanels>& sums) {
  repeat<kRows * kPanels * kPanelVecs>(QUIRE_BODY(i) { sums.v[i] = zero(); });
}

/// Adds `depth` features to the sums. `weight(i, k)` is vector i of feature k's weights, rows lie `x_stride` apart.
/// `prefetch(k)` is called every few features.
template <int kRows, int kPanels, typename T, typename Weight, typename Prefetch>
QUIRE_INLINE void multiply_add(const float* x, int64_t x_stride, int64_t depth, Sums<kRows, kPanels>& sums,
                               Weight weight, Prefetch prefetch) {
  constexpr int kVecs = kPanels * kPanelVecs;
  const auto add_feature = [&](int64_t k) __attribute__((always_inline)) {
    // The smaller set stays in registers while the other passes by: so the sums never leave theirs.
    if constexpr (kRows >= kVecs) {
      Vec weights[kVecs];
      repeat<kVecs>(QUIRE_BODY(i) { weights[i] = weight(i, k); });
      repeat<kRows>(QUIRE_BODY(r) {
        const Vec factor = set1(x[r * x_stride + k]);
        repeat<kVecs>(
            QUIRE_BODY(i) { sums.v[r * kVecs + i] = Product<T>::add(factor, weights[i], sums.v[r * kVecs + i]); });
      });
    } else {
      Vec factors[kRows];
      repeat<kRows>(QUIRE_BODY(r) { factors[r] = set1(x[r * x_stride + k]); });
      repeat<kVecs>(QUIRE_BODY(i) {
        const Vec w = weight(i, k);
        repeat<kRows>(QUIRE_BODY(r) { sums.v[r * kVecs + i] = Product<T>::add(factors[r], w, sums.v[r * kVecs + i]); });
      });
    }
  };
  int64_t k = 0;
  for (; k + kPrefetchFeatures <= depth; k += kPrefetchFeatures) {
    prefetch(k);
    repeat<kPrefetchFeatures>(QUIRE_BODY(i) { add_feature(k + i); });
  }
  for (; k < depth; ++k) add_feature(k);
}

/// Where vector i of feature k lies when panels are `panel_stride` elements apart.
QUIRE_INLINE int64_t weight_offset(int i, int64_t k, int64_t panel_stride) {
  return (i / kPanelVecs) * panel_stride + k * kPanelChannels + (i % kPanelVecs) * kLanes;
}

/// What becomes of kLanes finished sums: `out`, `gain` and `bias` are those of their channels.
QUIRE_INLINE Vec finished(const LinearCall& call, Vec sum, const float* out, const float* gain, const float* bias) {
  if (call.accumulate) {
    sum = fma(set1(call.scale), sum, load(out));
    if (gain != nullptr) sum = mul(load(gain), sum);
  }
  return bias != nullptr ? add(sum, load(bias)) : sum;
}

/// Writes one row's finished sums of one panel; the last panel may have fewer channels.
__attribute__((noinline)) static void finish_row(const LinearCall& call, int64_t row, int64_t panel,
                                                 const float* sums) {
  const int64_t first = panel * kPanelChannels;
  float* out = call.out + row * call.out_stride + first;
  const float* gain = call.gain == nullptr ? nullptr : call.gain + first;
  const float* bias = call.bias == nullptr ? nullptr : call.bias + first;
  const int64_t channels = call.out_features - first;
  if (channels >= kPanelChannels) {
    for (int i = 0; i < kPanelChannels; i += kLanes) {
      store(out + i, finished(call, load(sums + i), out + i, gain == nullptr ? nullptr : gain + i,
                              bias == nullptr ? nullptr : bias + i));
    }
    return;
  }
  // The same on copies with room for whole vectors.
  const size_t size = static_cast<size_t>(channels) * sizeof(float);
  float outs[kPanelChannels] = {};
  float gains[kPanelChannels] = {};
  float biases[kPanelChannels] = {};
  if (call.accumulate) memcpy(outs, out, size);
  if (gain != nullptr) gain = static_cast<const float*>(memcpy(gains, gain, size));
  if (bias != nullptr) bias = static_cast<const float*>(memcpy(biases, bias, size));
  for (int i = 0; i < kPanelChannels; i += kLanes) {
    store(outs + i, finished(call, load(sums + i), outs + i, gain == nullptr ? nullptr : gain + i,
                             bias == nullptr ? nullptr : bias + i));
  }
  memcpy(out, outs, size);
}

/// All rows with kPanels panels that lie one after the other.
template <int kRows, int kPanels, typename T>
QUIRE_INLINE void stream_panels(const LinearCall& call, int64_t panel) {
  const int64_t depth = call.in_features;
  const int64_t panel_size = depth * kPanelChannels;
  const T* const weights = static_cast<const T*>(call.panels) + panel * panel_size;
  Sums<kRows, kPanels> sums;
  clear(sums);
  // Near the end of these panels, the weights ahead are those of the next kPanels panels.
  constexpr int64_t kLineElements = kLineBytes / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kAhead = kPrefetchBytes / static_cast<int64_t>(sizeof(T));
  const T* const ahead = weights + kAhead;
  const T* const ahead_at_end = ahead + (kPanels - 1) * panel_size;
  const int64_t turn = depth - kAhead / kPanelChannels;
  multiply_add<kRows, kPanels, T>(
      call.x, call.x_stride, depth, sums,
      [&](int i, int64_t k)
          __attribute__((always_inline)) { return load_as_float(weights + weight_offset(i, k, panel_size)); },
      [&](int64_t k) __attribute__((always_inline)) {
        const T* const position = (k < turn ? ahead : ahead_at_end) + k * kPanelChannels;
        for (int p = 0; p < kPanels; ++p) {
          for (int64_t i = 0; i < kPrefetchFeatures * kPanelChannels; i += kLineElements) {
            __builtin_prefetch(position + p * panel_size + i);
          }
        }
      });
  constexpr int kVecs = kPanels * kPanelVecs;
  const auto for_outputs = [&](const auto& use) __attribute__((always_inline)) {
    float* const out = call.out + panel * kPanelChannels;
    const int64_t out_stride = call.out_stride;
    repeat<kRows * kVecs>(QUIRE_BODY(i) { use(out + i / kVecs * out_stride + i % kVecs * kLanes, sums.v[i]); });
  };
  const bool plain =
      call.gain == nullptr && call.bias == nullptr && (panel + kPanels) * kPanelChannels <= call.out_features;
  if (plain && call.accumulate) {
    const Vec scale = set1(call.scale);
    for_outputs([&](float* out, Vec sum) __attribute__((always_inline)) { store(out, fma(scale, sum, load(out))); });
  } else if (plain) {
    for_outputs([&](float* out, Vec sum) __attribute__((always_inline)) { store(out, sum); });
  } else {
    repeat<kRows>(QUIRE_BODY(r) {
      float finished[kPanels * kPanelChannels];
      repeat<kVecs>(QUIRE_BODY(i) { store(finished + i * kLanes, sums.v[r * kVecs + i]); });
      for (int p = 0; p < kPanels; ++p) finish_row(call, r, panel + p, finished + p * kPanelChannels);
    });
  }
}

template <int kRows, typename T>
void stream(const LinearCall& call, int64_t panel, int64_t last_panel) {
  constexpr int kPanels = streaming_panels(kRows);
  for (; panel + kPanels <= last_panel; panel += kPanels) stream_panels<kRows, kPanels, T>(call, panel);
  for (; panel < last_panel; ++panel) stream_panels<kRows, 1, T>(call, panel);
}

template <typename T, int kRows = kStreamingRows>
void stream_rows(const LinearCall& call, int64_t first_panel, int64_t last_panel) {
  if (call.rows == kRows) return stream<kRows, T>(call, first_panel, last_panel);
  if constexpr (kRows > 1) stream_rows<T, kRows - 1>(call, first_panel, last_panel);
}

static void multiply_streaming(const LinearCall& call, int64_t first_panel, int64_t last_panel) {
#if defined(QUIRE_BF16_DOT)
  stream_rows<Bf16Pair>(call, first_panel, last_panel);
#else
  switch (call.storage) {
    case Storage::kFloat32:
      return stream_rows<float>(call, first_panel, last_panel);
    case Storage::kBFloat16:
      return stream_rows<BFloat16>(call, first_panel, last_panel);
    case Storage::kFloat16:
      return stream_rows<Float16>(call, first_panel, last_panel);
  }
#endif
}

/// One block of weights with one tile of rows. The sums of a row and panel wait in `waiting`, kPanelChannels side by
/// side, panels `waiting_stride` floats apart.
template <typename T>
struct TileBlock {
  const float* x;
  const T* weights;  ///< as stored, panels `panel_stride` elements apart
  int64_t panel_stride;
  float* widened;  ///< the same as float32, panels kBlockFeatures features apart
  int64_t depth;
  bool first;
  const float* waiting;
  int64_t waiting_stride;
  float* target;  ///< where the sums go: back to wait, or to the output
  int64_t target_row_stride;
  int64_t target_panel_stride;
  const char* prefetch;  ///< weights that come next, fetched meanwhile
  int64_t prefetch_step;
  const char* next_x;  ///< the tile of rows that comes next, fetched as well
};

/// What a tile does with the weights of its block: the first of a task leaves them widened for the others.
enum class Weights : uint8_t { kStored, kWiden, kWidened };

template <int kRows, int kPanels, Weights kWeights, typename T>
void multiply_tile(const TileBlock<T>& block) {
  constexpr int kVecs = kPanels * kPanelVecs;
  const auto place = [&](int i, int64_t row_stride, int64_t stride) __attribute__((always_inline)) {
    const int vec = i % kVecs;
    return i / kVecs * row_stride + vec / kPanelVecs * stride + vec % kPanelVecs * kLanes;
  };
  Sums<kRows, kPanels> sums;
  if (block.first) {
    clear(sums);
  } else {
    repeat<kRows * kVecs>(
        QUIRE_BODY(i) { sums.v[i] = load(block.waiting + place(i, kPanelChannels, block.waiting_stride)); });
  }
  const T* const stored = block.weights;
  float* const widened = block.widened;
  const int64_t panel_stride = block.panel_stride;
  const auto weight = [&](int i, int64_t k) __attribute__((always_inline)) {
    float* const wide = widened + weight_offset(i, k, kBlockFeatures * kPanelChannels);
    if constexpr (kWeights == Weights::kWidened) return load(wide);
    const Vec w = load_as_float(stored + weight_offset(i, k, panel_stride));
    if constexpr (kWeights == Weights::kWiden) store(wide, w);
    return w;
  };
  constexpr int64_t kTileBytes = kPrefetchFeatures * kTileRows * static_cast<int64_t>(sizeof(float));
  const char* next_x = block.next_x;
  const char* prefetch = block.prefetch;
  const int64_t prefetch_step = block.prefetch_step;
  multiply_add<kRows, kPanels, T>(
      block.x, kBlockFeatures, block.depth, sums, weight, [&](int64_t) __attribute__((always_inline)) {
        for (int64_t i = 0; i < prefetch_step; i += kLineBytes) __builtin_prefetch(prefetch + i);
        prefetch += prefetch_step;
        for (int64_t i = 0; i < kTileBytes; i += kLineBytes) __builtin_prefetch(next_x + i);
        next_x += kTileBytes;
      });
  const int64_t row_stride = block.target_row_stride;
  const int64_t target_stride = block.target_panel_stride;
  repeat<kRows * kVecs>(QUIRE_BODY(i) { store(block.target + place(i, row_stride, target_stride), sums.v[i]); });
}

template <int kPanels, Weights kWeights, typename T, int kRows = kTileRows>
QUIRE_INLINE void multiply_tile_rows(int64_t rows, const TileBlock<T>& block) {
  if (rows == kRows) return multiply_tile<kRows, kPanels, kWeights>(block);
  if constexpr (kRows > 1) multiply_tile_rows<kPanels, kWeights, T, kRows - 1>(rows, block);
}

/// Whether the sums of `count` panels can be written as they are by the last block of features: nothing is added and
/// the panels are full.
QUIRE_INLINE bool finishes_itself(const LinearCall& call, int64_t panel, int64_t count) {
  return !call.accumulate && call.bias == nullptr && (panel + count) * kPanelChannels <= call.out_features;
}

/// One block of features of kPanels panels with all tiles of a task.
template <int kPanels, typename T>
QUIRE_INLINE void multiply_block(const LinearCall& call, const LinearTiles& task, int64_t panel, int64_t first_feature,
                                 float* widened, float* waiting, const T* next) {
  const int64_t left = call.in_features - first_feature;
  TileBlock<T> block;
  block.depth = left < kBlockFeatures ? left : kBlockFeatures;
  block.first = first_feature == 0;
  block.panel_stride = call.in_features * kPanelChannels;
  block.weights = static_cast<const T*>(call.panels) + panel * block.panel_stride + first_feature * kPanelChannels;
  block.widened = widened;
  const int64_t tiles = task.last_tile - task.first_tile;
  const int64_t first_row = tile_begin(call.rows, task.tile_count, task.first_tile);
  block.waiting_stride = (tile_begin(call.rows, task.tile_count, task.last_tile) - first_row) * kPanelChannels;
  const bool to_output = left <= kBlockFeatures && finishes_itself(call, panel, kPanels);
  block.target_row_stride = to_output ? call.out_stride : kPanelChannels;
  block.target_panel_stride = to_output ? kPanelChannels : block.waiting_stride;
  block.prefetch_step = kPrefetchFeatures * kPanelChannels * static_cast<int64_t>(sizeof(T)) * kPanels / tiles;
  const int64_t tile_bytes = block.depth / kPrefetchFeatures * block.prefetch_step;
  const float* const first_x =
      task.x_tiles + (first_feature * task.tile_count + task.first_tile * kBlockFeatures) * kTileRows;
  for (int64_t tile = task.first_tile; tile < task.last_tile; ++tile) {
    const int64_t row = tile_begin(call.rows, task.tile_count, tile);
    const int64_t rows = tile_begin(call.rows, task.tile_count, tile + 1) - row;
    block.x = first_x + (tile - task.first_tile) * kTileRows * kBlockFeatures;
    float* const slots = waiting + (row - first_row) * kPanelChannels;
    block.waiting = slots;
    block.target = to_output ? call.out + row * call.out_stride + panel * kPanelChannels : slots;
    block.prefetch = reinterpret_cast<const char*>(next) + (tile - task.first_tile) * tile_bytes;
    const bool last = tile + 1 == task.last_tile;
    block.next_x = reinterpret_cast<const char*>(last ? first_x : block.x + kTileRows * kBlockFeatures);
    if constexpr (!kNeedsWidening<T>) {
      multiply_tile_rows<kPanels, Weights::kStored>(rows, block);
    } else if (tile == task.first_tile) {
      multiply_tile_rows<kPanels, Weights::kWiden>(rows, block);
    } else {
      multiply_tile_rows<kPanels, Weights::kWidened>(rows, block);
    }
  }
}

/// One block of features with all panels and tiles of a task.
template <typename T>
QUIRE_INLINE void multiply_panels(const LinearCall& call, const LinearTiles& task, int64_t first_feature) {
  float* const widened = task.scratch;
  float* const waiting = task.scratch + kTilePanels * kBlockFeatures * kPanelChannels;
  const int64_t rows =
      tile_begin(call.rows, task.tile_count, task.last_tile) - tile_begin(call.rows, task.tile_count, task.first_tile);
  const int64_t panel_size = call.in_features * kPanelChannels;
  for (int64_t panel = task.first_panel; panel < task.last_panel;) {
    const int64_t count = task.last_panel - panel < kTilePanels ? 1 : kTilePanels;
    const bool last = panel + count >= task.last_panel;
    const T* const next = static_cast<const T*>(call.panels) + (last ? task.first_panel : panel + count) * panel_size +
                          (first_feature + (last ? kBlockFeatures : 0)) * kPanelChannels;
    float* const sums = waiting + (panel - task.first_panel) * rows * kPanelChannels;
    if (count == kTilePanels) {
      multiply_block<kTilePanels>(call, task, panel, first_feature, widened, sums, next);
    } else {
      multiply_block<1>(call, task, panel, first_feature, widened, sums, next);
    }
    panel += count;
  }
}

template <typename T>
void multiply_tiles_of(const LinearCall& call, const LinearTiles& task) {
  for (int64_t k = 0; k < call.in_features; k += kBlockFeatures) multiply_panels<T>(call, task, k);
  const float* sums = task.scratch + kTilePanels * kBlockFeatures * kPanelChannels;
  const int64_t first_row = tile_begin(call.rows, task.tile_count, task.first_tile);
  const int64_t last_row = tile_begin(call.rows, task.tile_count, task.last_tile);
  int64_t first_waiting = task.first_panel;
  while (first_waiting < task.last_panel) {
    const int64_t count = task.last_panel - first_waiting < kTilePanels ? 1 : kTilePanels;
    if (!finishes_itself(call, first_waiting, count)) break;
    first_waiting += count;
  }
  if (first_waiting == task.last_panel) return;
  // Row by row: what is written lies side by side.
  const int64_t panel_sums = (last_row - first_row) * kPanelChannels;
  for (int64_t row = first_row; row < last_row; ++row, sums += kPanelChannels) {
    for (int64_t panel = first_waiting; panel < task.last_panel; ++panel) {
      finish_row(call, row, panel, sums + (panel - task.first_panel) * panel_sums);
    }
  }
}

static void multiply_tiles(const LinearCall& call, const LinearTiles& task) {
#if defined(QUIRE_BF16_DOT)
  multiply_tiles_of<Bf16Pair>(call, task);
#else
  switch (call.storage) {
    case Storage::kFloat32:
      return multiply_tiles_of<float>(call, task);
    case Storage::kBFloat16:
      return multiply_tiles_of<BFloat16>(call, task);
    case Storage::kFloat16:
      return multiply_tiles_of<Float16>(call, task);
  }
#endif
}

extern const LinearKernels linear_kernels = {
    .streaming_rows = kStreamingRows,
    .streaming_panels = streaming_panels(1),
    .tile_rows = kTileRows,
    .tile_panels = kTilePanels,
    .multiply_streaming = multiply_streaming,
    .multiply_tiles = multiply_tiles,
#if defined(QUIRE_BF16_DOT)
    .prepare_row = round_to_pairs,
    .pack_panel = nullptr,
    .gather_channel = nullptr,
#else
    .prepare_row = nullptr,
    .pack_panel = pack_panel,
    .gather_channel = gather_channel,
#endif
};

}  // namespace quire::ops::cpu::QUIRE_ISA
