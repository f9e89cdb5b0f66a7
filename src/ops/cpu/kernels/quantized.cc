// Rows of bytes times compressed weights. Within a group the sum is of integers and exact; groups are added in
// ascending order, by the same operations for any number of rows: so all row counts give the same bits.
#include "ops/cpu/kernels/quantized.h"

#include "ops/cpu/kernels/byte_dot.h"
#include "ops/cpu/kernels/linear.h"
#include "ops/cpu/kernels/repeat.h"
#include "ops/cpu/kernels/vec.h"

namespace quire::ops::cpu::QUIRE_ISA {

#if defined(QUIRE_ISA_avx512)
constexpr int kTileRows = 12;
#elif defined(QUIRE_ISA_avx2)
constexpr int kTileRows = 3;
#else
constexpr int kTileRows = 2;
#endif
static_assert(kTileRows <= kMostQuantTileRows);

constexpr int kPanelVecs = static_cast<int>(kPanelChannels) / kLanes;
constexpr int kQuads = static_cast<int>(kQuantGroup) / 4;
constexpr int kVecBytes = kLanes * 4;
constexpr int64_t kPrefetchBytes = 2048;

QUIRE_INLINE int32_t word_at(const uint8_t* p) {
  int32_t word;
  memcpy(&word, p, sizeof(word));
  return word;
}
QUIRE_INLINE float float_at(const uint8_t* p) {
  float value;
  memcpy(&value, p, sizeof(value));
  return value;
}
QUIRE_INLINE Vec load_half(const uint8_t* p) { return load_f16(reinterpret_cast<const uint16_t*>(p)); }

/// Vector `vec` of the weights of quad `quad` of a group, as unsigned bytes.
template <QuantFormat kFormat, int kQuad>
QUIRE_INLINE Ints quant_bytes(const uint8_t* group, int vec) {
  if constexpr (kFormat == QuantFormat::kInt8 || kFormat == QuantFormat::kQ8) {
    return load_bytes(group + kQuad * 64 + vec * kVecBytes);
  } else {
    const Ints both = load_bytes(group + kQuad % 4 * 64 + vec * kVecBytes);
    const Ints low = bits_and(kQuad < 4 ? both : shift_right<4>(both), spread(0x0f0f0f0f));
    if constexpr (kFormat != QuantFormat::kQ6K) return low;
    const Ints pairs = load_bytes(group + 256 + kQuad / 4 * 64 + vec * kVecBytes);
    constexpr int kShift = kQuad % 4 * 2 - 4;  // from where the pair lies to bits 4 and 5
    const Ints moved =
        kShift > 0 ? shift_right<(kShift > 0 ? kShift : 0)>(pairs) : shift_left<(kShift < 0 ? -kShift : 0)>(pairs);
    return bits_or(low, bits_and(moved, spread(0x30303030)));
  }
}

template <int kRows>
struct IntSums {
  Ints v[kRows * kPanelVecs];  ///< row by row
};
template <int kRows>
struct FloatSums {
  Vec v[kRows * kPanelVecs];
};

/// Adds quads [kFirst, kLast) of a group.
template <QuantFormat kFormat, int kRows, int kFirst, int kLast>
QUIRE_INLINE void add_quads(const uint8_t* group, const uint8_t* rows, IntSums<kRows>& sums) {
  if constexpr (kFirst < kLast) {
    WeightBytes weights[kPanelVecs];
    repeat<kPanelVecs>(QUIRE_BODY(i) { weights[i] = weight_bytes(quant_bytes<kFormat, kFirst>(group, i)); });
    repeat<kRows>(QUIRE_BODY(r) {
      const RowBytes row = row_bytes(word_at(rows + (kFirst * kRows + r) * 4));
      repeat<kPanelVecs>(
          QUIRE_BODY(i) { sums.v[r * kPanelVecs + i] = dot(sums.v[r * kPanelVecs + i], weights[i], row); });
    });
    add_quads<kFormat, kRows, kFirst + 1, kLast>(group, rows, sums);
  }
}

/// Sums begin with what takes the offset away: word `word` of each row.
template <int kRows>
QUIRE_INLINE void begin_sums(const uint8_t* words, int64_t word, IntSums<kRows>& sums) {
  repeat<kRows>(QUIRE_BODY(r) {
    const Ints start = spread(word_at(words + (word * kRows + r) * 4));
    repeat<kPanelVecs>(QUIRE_BODY(i) { sums.v[r * kPanelVecs + i] = start; });
  });
}

template <int kRows>
QUIRE_INLINE void clear_sums(IntSums<kRows>& sums) {
  repeat<kRows * kPanelVecs>(QUIRE_BODY(i) { sums.v[i] = spread(0); });
}

/// total += scale of the row * d * sum.
template <int kRows>
QUIRE_INLINE void add_scaled(const uint8_t* words, const Vec* d, const IntSums<kRows>& sums, FloatSums<kRows>& total) {
  repeat<kRows>(QUIRE_BODY(r) {
    const Vec scale = set1(float_at(words + (kTileScale * kRows + r) * 4));
    repeat<kPanelVecs>(QUIRE_BODY(i) {
      Vec& v = total.v[r * kPanelVecs + i];
      v = fma(to_float(sums.v[r * kPanelVecs + i]), mul(d[i], scale), v);
    });
  });
}

/// total += sum of the row's values * m.
template <int kRows>
QUIRE_INLINE void add_minimums(const uint8_t* words, const Vec* m, FloatSums<kRows>& total) {
  repeat<kRows>(QUIRE_BODY(r) {
    const Vec sum = set1(float_at(words + (kTileScaledSum * kRows + r) * 4));
    repeat<kPanelVecs>(QUIRE_BODY(i) { total.v[r * kPanelVecs + i] = fma(m[i], sum, total.v[r * kPanelVecs + i]); });
  });
}

template <QuantFormat kFormat, int kRows>
QUIRE_INLINE void add_group(const uint8_t* super, const uint8_t* group, const uint8_t* rows, FloatSums<kRows>& total) {
  const uint8_t* const words = rows + kRows * kQuantGroup;
  IntSums<kRows> sums;
  Vec d[kPanelVecs];
  if constexpr (kFormat == QuantFormat::kQ6K) {
    Vec first[kPanelVecs];
    Vec second[kPanelVecs];
    repeat<kPanelVecs>(QUIRE_BODY(i) {
      const Vec scale = load_half(super + i * kLanes * 2);
      first[i] = mul(scale, load_signed_bytes(group + 384 + i * kLanes));
      second[i] = mul(scale, load_signed_bytes(group + 400 + i * kLanes));
    });
    begin_sums(words, kTileSum32, sums);
    add_quads<kFormat, kRows, 0, kQuads / 2>(group, rows, sums);
    add_scaled(words, first, sums, total);
    begin_sums(words, kTileSum32 + 1, sums);
    add_quads<kFormat, kRows, kQuads / 2, kQuads>(group, rows, sums);
    add_scaled(words, second, sums, total);
    return;
  }
  if constexpr (kFormat == QuantFormat::kQ8) {
    begin_sums(words, kTileSum128, sums);
  } else if constexpr (kFormat == QuantFormat::kQ4) {
    begin_sums(words, kTileSum8, sums);
  } else {
    clear_sums(sums);
  }
  add_quads<kFormat, kRows, 0, kQuads>(group, rows, sums);
  constexpr int64_t kScales = kFormat == QuantFormat::kQ8 ? 512 : 256;
  repeat<kPanelVecs>(QUIRE_BODY(i) {
    if constexpr (kFormat == QuantFormat::kQ4K) {
      d[i] = mul(load_half(super + i * kLanes * 2), load_unsigned_bytes(group + kScales + i * kLanes));
    } else {
      d[i] = load_half(group + kScales + i * kLanes * 2);
    }
  });
  add_scaled(words, d, sums, total);
  if constexpr (kFormat == QuantFormat::kQ4Min || kFormat == QuantFormat::kQ4K) {
    repeat<kPanelVecs>(QUIRE_BODY(i) {
      if constexpr (kFormat == QuantFormat::kQ4K) {
        d[i] = mul(load_half(super + 32 + i * kLanes * 2), load_unsigned_bytes(group + kScales + 16 + i * kLanes));
      } else {
        d[i] = load_half(group + kScales + 32 + i * kLanes * 2);
      }
    });
    add_minimums(words, d, total);
  }
}

/// The sums of one panel with kRows rows.
template <QuantFormat kFormat, int kRows>
QUIRE_INLINE void sum_panel(const uint8_t* panel, const uint8_t* tile, int64_t in_features, FloatSums<kRows>& total) {
  const int64_t groups = quant_groups(in_features);
  const int64_t group_bytes = quant_group_bytes(kFormat);
  const auto prefetch = [&](const uint8_t* group) __attribute__((always_inline)) {
    for (int64_t i = 0; i < group_bytes; i += 64) __builtin_prefetch(group + kPrefetchBytes + i);
  };
  if constexpr (kFormat == QuantFormat::kInt8) {
    IntSums<kRows> sums;
    const uint8_t* const words = tile + groups * kRows * kQuantGroup;
    begin_sums(words, 0, sums);
    for (int64_t g = 0; g < groups; ++g) {
      prefetch(panel + g * group_bytes);
      add_quads<kFormat, kRows, 0, kQuads>(panel + g * group_bytes, tile + g * kRows * kQuantGroup, sums);
    }
    repeat<kRows>(QUIRE_BODY(r) {
      const Vec scale = set1(float_at(words + (kRows + r) * 4));
      repeat<kPanelVecs>(QUIRE_BODY(i) {
        const float* const scales = reinterpret_cast<const float*>(panel + groups * group_bytes) + i * kLanes;
        total.v[r * kPanelVecs + i] = mul(to_float(sums.v[r * kPanelVecs + i]), mul(load(scales), scale));
      });
    });
  } else {
    repeat<kRows * kPanelVecs>(QUIRE_BODY(i) { total.v[i] = zero(); });
    const uint8_t* group = panel;
    const uint8_t* super = panel;
    for (int64_t g = 0; g < groups; ++g) {
      if (quant_super_bytes(kFormat) > 0 && g % kSuperGroups == 0) {
        super = group;
        group += quant_super_bytes(kFormat);
      }
      prefetch(group);
      add_group<kFormat, kRows>(super, group, tile + g * kRows * (kQuantGroup + kTileWords * 4), total);
      group += group_bytes;
    }
  }
}

/// Writes one row's sums of one panel; the last panel may have fewer channels.
__attribute__((noinline)) static void finish_row(const QuantizedCall& call, int64_t row, int64_t panel,
                                                 const float* sums) {
  const int64_t first = panel * kPanelChannels;
  const int64_t left = call.out_features - first;
  const int64_t channels = left < kPanelChannels ? left : kPanelChannels;
  float* const out = call.out + row * call.out_stride + first;
  for (int64_t i = 0; i < channels; ++i) out[i] = call.bias == nullptr ? sums[i] : sums[i] + call.bias[first + i];
}

template <QuantFormat kFormat, int kRows>
void multiply_tile(const QuantizedCall& call, const uint8_t* tile, int64_t row, int64_t panel) {
  FloatSums<kRows> total;
  sum_panel<kFormat, kRows>(call.panels + panel * quant_panel_bytes(kFormat, call.in_features), tile, call.in_features,
                            total);
  if (call.bias == nullptr && (panel + 1) * kPanelChannels <= call.out_features) {
    float* const out = call.out + row * call.out_stride + panel * kPanelChannels;
    repeat<kRows * kPanelVecs>(
        QUIRE_BODY(i) { store(out + i / kPanelVecs * call.out_stride + i % kPanelVecs * kLanes, total.v[i]); });
    return;
  }
  repeat<kRows>(QUIRE_BODY(r) {
    float sums[kPanelChannels];
    repeat<kPanelVecs>(QUIRE_BODY(i) { store(sums + i * kLanes, total.v[r * kPanelVecs + i]); });
    finish_row(call, row + r, panel, sums);
  });
}

template <QuantFormat kFormat, int kRows = kTileRows>
QUIRE_INLINE void multiply_rows(const QuantizedCall& call, const uint8_t* tile, int64_t rows, int64_t row,
                                int64_t panel) {
  if (rows == kRows) return multiply_tile<kFormat, kRows>(call, tile, row, panel);
  if constexpr (kRows > 1) multiply_rows<kFormat, kRows - 1>(call, tile, rows, row, panel);
}

template <QuantFormat kFormat>
void multiply_format(const QuantizedCall& call, int64_t first_tile, int64_t last_tile, int64_t first_panel,
                     int64_t last_panel) {
  for (int64_t panel = first_panel; panel < last_panel; ++panel) {
    for (int64_t tile = first_tile; tile < last_tile; ++tile) {
      const int64_t row = tile_begin(call.rows, call.tile_count, tile);
      const int64_t rows = tile_begin(call.rows, call.tile_count, tile + 1) - row;
      multiply_rows<kFormat>(call, call.tiles + tile * call.tile_stride, rows, row, panel);
    }
  }
}

static void multiply(const QuantizedCall& call, int64_t first_tile, int64_t last_tile, int64_t first_panel,
                     int64_t last_panel) {
  switch (call.format) {
    case QuantFormat::kInt8:
      return multiply_format<QuantFormat::kInt8>(call, first_tile, last_tile, first_panel, last_panel);
    case QuantFormat::kQ8:
      return multiply_format<QuantFormat::kQ8>(call, first_tile, last_tile, first_panel, last_panel);
    case QuantFormat::kQ4:
      return multiply_format<QuantFormat::kQ4>(call, first_tile, last_tile, first_panel, last_panel);
    case QuantFormat::kQ4Min:
      return multiply_format<QuantFormat::kQ4Min>(call, first_tile, last_tile, first_panel, last_panel);
    case QuantFormat::kQ4K:
      return multiply_format<QuantFormat::kQ4K>(call, first_tile, last_tile, first_panel, last_panel);
    case QuantFormat::kQ6K:
      return multiply_format<QuantFormat::kQ6K>(call, first_tile, last_tile, first_panel, last_panel);
  }
}

/// Below this a scale's reciprocal is out of float32's range: such values count as zero.
constexpr float kLeastMaximum = 1e-30f;

/// What rounding a run of values needs: its scale (NaN where a value is not finite) and the factor that takes values to
/// bytes.
struct RunScale {
  float scale;
  float factor;
};
QUIRE_INLINE RunScale scale_of(Vec largest, Vec poison) {
  const float none = reduce_add(poison);  // NaN where a value times 0 is not 0
  const float maximum = reduce_max(largest);
  if (!(none == 0.0f)) return {none, 0.0f};
  if (maximum < kLeastMaximum) return {0.0f, 0.0f};
  return {maximum / 127.0f, 127.0f / maximum};
}
QUIRE_INLINE void look_at(Vec v, Vec& largest, Vec& poison) {
  largest = max(largest, max(v, sub(zero(), v)));
  poison = add(poison, mul(v, zero()));
}

/// One group of a row as bytes, to `tile` where rows lie `rows` words apart. Gives the sums of its halves.
struct HalfSums {
  float first;
  float second;
};
QUIRE_INLINE HalfSums round_group(const float* x, float factor, int64_t rows, uint8_t* tile) {
  constexpr int kHalf = static_cast<int>(kQuantGroup) / 2;
  int8_t bytes[kQuantGroup];
  Vec halves[2] = {zero(), zero()};
  if (factor == 0.0f) {
    memset(bytes, 0, sizeof(bytes));
  } else {
    for (int i = 0; i < kQuantGroup; i += kLanes) {
      const Vec rounded = round_nearest(mul(load(x + i), set1(factor)));
      halves[i / kHalf] = add(halves[i / kHalf], rounded);
      store_signed_bytes(bytes + i, rounded);
    }
  }
  for (int q = 0; q < kQuads; ++q) memcpy(tile + q * rows * 4, bytes + q * 4, 4);
  return {reduce_add(halves[0]), reduce_add(halves[1])};
}

/// Group `group` of a row, filled up with zeros in `buffer` where it is the last and not whole.
QUIRE_INLINE const float* group_of(const float* x, int64_t group, int64_t in_features, float* buffer) {
  const int64_t left = in_features - group * kQuantGroup;
  if (left >= kQuantGroup) return x + group * kQuantGroup;
  memset(buffer, 0, kQuantGroup * sizeof(float));
  memcpy(buffer, x + group * kQuantGroup, static_cast<size_t>(left) * sizeof(float));
  return buffer;
}

QUIRE_INLINE void put_int(uint8_t* p, float value) {
  const int32_t word = static_cast<int32_t>(value);
  memcpy(p, &word, sizeof(word));
}
QUIRE_INLINE void put_float(uint8_t* p, float value) { memcpy(p, &value, sizeof(value)); }

QUIRE_INLINE RunScale group_scale(const float* x) {
  Vec largest = zero();
  Vec poison = zero();
  for (int i = 0; i < kQuantGroup; i += kLanes) look_at(load(x + i), largest, poison);
  return scale_of(largest, poison);
}

static void quantize_tile(const float* x, int64_t x_stride, int64_t rows, int64_t in_features, bool group_scales,
                          uint8_t* tile) {
  const int64_t groups = quant_groups(in_features);
  float buffer[kQuantGroup];
  for (int64_t r = 0; r < rows; ++r) {
    const float* const row = x + r * x_stride;
    if (group_scales) {
      for (int64_t g = 0; g < groups; ++g) {
        const float* const values = group_of(row, g, in_features, buffer);
        const RunScale run = group_scale(values);
        uint8_t* const group = tile + g * rows * (kQuantGroup + kTileWords * 4);
        const HalfSums sums = round_group(values, run.factor, rows, group + r * 4);
        const float sum = sums.first + sums.second;
        uint8_t* const words = group + rows * kQuantGroup + r * 4;
        put_int(words + kTileSum128 * rows * 4, -128.0f * sum);
        put_int(words + kTileSum8 * rows * 4, -8.0f * sum);
        put_int(words + kTileSum32 * rows * 4, -32.0f * sums.first);
        put_int(words + (kTileSum32 + 1) * rows * 4, -32.0f * sums.second);
        put_float(words + kTileScale * rows * 4, run.scale);
        put_float(words + kTileScaledSum * rows * 4, run.scale * sum);
      }
      continue;
    }
    Vec largest = zero();
    Vec poison = zero();
    for (int64_t g = 0; g < groups; ++g) {
      const float* const values = group_of(row, g, in_features, buffer);
      for (int i = 0; i < kQuantGroup; i += kLanes) look_at(load(values + i), largest, poison);
    }
    const RunScale run = scale_of(largest, poison);
    int32_t sum = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const float* const values = group_of(row, g, in_features, buffer);
      const HalfSums sums = round_group(values, run.factor, rows, tile + g * rows * kQuantGroup + r * 4);
      sum += static_cast<int32_t>(sums.first + sums.second);
    }
    uint8_t* const words = tile + groups * rows * kQuantGroup + r * 4;
    const uint32_t offset = 0u - 128u * static_cast<uint32_t>(sum);
    memcpy(words, &offset, sizeof(offset));
    put_float(words + rows * 4, run.scale);
  }
}

extern const QuantizedKernels quantized_kernels = {
    .tile_rows = kTileRows,
    .quantize_tile = quantize_tile,
    .multiply = multiply,
};

}  // namespace quire::ops::cpu::QUIRE_ISA
