// Writing weights into panels, and reading them back. Included by linear.cc only.
#pragma once

#include "ops/cpu/kernels/linear.h"
#include "ops/cpu/kernels/vec.h"

namespace quire::ops::cpu::QUIRE_ISA {

/// Source features that are converted and transposed at a time: sixteen rows of them stay in the L1 cache.
constexpr int64_t kPackFeatures = 64;

/// Converts `count` values, rounding to nearest even.
template <typename Source, typename Target>
QUIRE_INLINE void convert_values(const Source* source, int64_t count, Target* target) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_from_float(target + i, load_as_float(source + i));
  if (i == count) return;
  Source last_source[kLanes] = {};
  Target last_target[kLanes];
  memcpy(last_source, source + i, sizeof(Source) * static_cast<size_t>(count - i));
  store_from_float(last_target, load_as_float(last_source));
  memcpy(target + i, last_target, sizeof(Target) * static_cast<size_t>(count - i));
}

// Transposes of square blocks that fill 16-byte vectors: 8 x 8 values of 16 bits, 4 x 4 of 32 bits. Rows of the source
// lie `stride` values apart, rows of the target kPanelChannels.
typedef uint16_t Halves __attribute__((vector_size(16)));
typedef float Words __attribute__((vector_size(16)));

QUIRE_INLINE Halves low_halves(Halves a, Halves b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
QUIRE_INLINE Halves high_halves(Halves a, Halves b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

/// One of three equal steps (a perfect shuffle of eight rows) that together transpose 8 x 8.
QUIRE_INLINE void shuffle_rows(const Halves* in, Halves* out) {
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = low_halves(in[i], in[i + 4]);
    out[2 * i + 1] = high_halves(in[i], in[i + 4]);
  }
}

QUIRE_INLINE void transpose_block(const uint16_t* source, int64_t stride, uint16_t* target) {
  Halves a[8];
  Halves b[8];
  for (int i = 0; i < 8; ++i) memcpy(&a[i], source + i * stride, sizeof(Halves));
  shuffle_rows(a, b);
  shuffle_rows(b, a);
  shuffle_rows(a, b);
  for (int i = 0; i < 8; ++i) memcpy(target + i * kPanelChannels, &b[i], sizeof(Halves));
}

QUIRE_INLINE void transpose_block(const float* source, int64_t stride, float* target) {
  Words r[4];
  for (int i = 0; i < 4; ++i) memcpy(&r[i], source + i * stride, sizeof(Words));
  const Words ac_low = __builtin_shufflevector(r[0], r[2], 0, 4, 1, 5);
  const Words ac_high = __builtin_shufflevector(r[0], r[2], 2, 6, 3, 7);
  const Words bd_low = __builtin_shufflevector(r[1], r[3], 0, 4, 1, 5);
  const Words bd_high = __builtin_shufflevector(r[1], r[3], 2, 6, 3, 7);
  const Words columns[4] = {
      __builtin_shufflevector(ac_low, bd_low, 0, 4, 1, 5), __builtin_shufflevector(ac_low, bd_low, 2, 6, 3, 7),
      __builtin_shufflevector(ac_high, bd_high, 0, 4, 1, 5), __builtin_shufflevector(ac_high, bd_high, 2, 6, 3, 7)};
  for (int i = 0; i < 4; ++i) memcpy(target + i * kPanelChannels, &columns[i], sizeof(Words));
}

/// Writes source[lane][k] to panel[k][lane] for all lanes of a panel (`lanes` == kPanelChannels) or a few.
template <typename Element>
QUIRE_INLINE void transpose_lanes(const Element* source, int64_t stride, int64_t lanes, int64_t features,
                                  Element* panel) {
  constexpr int64_t kBlock = 16 / sizeof(Element);
  int64_t k = 0;
  if (lanes == kPanelChannels) {
    for (; k + kBlock <= features; k += kBlock) {
      for (int64_t lane = 0; lane < kPanelChannels; lane += kBlock) {
        transpose_block(source + lane * stride + k, stride, panel + k * kPanelChannels + lane);
      }
    }
  }
  for (; k < features; ++k) {
    for (int64_t lane = 0; lane < lanes; ++lane) panel[k * kPanelChannels + lane] = source[lane * stride + k];
  }
}

QUIRE_INLINE float* elements(float* p) { return p; }
QUIRE_INLINE uint16_t* elements(BFloat16* p) { return &p->bits; }
QUIRE_INLINE uint16_t* elements(Float16* p) { return &p->bits; }

template <typename Element>
void pack_unchanged(const PackCall& call) {
  transpose_lanes(static_cast<const Element*>(call.source), call.source_stride, call.lanes, call.features,
                  static_cast<Element*>(call.panel) + call.first_lane);
}

template <typename Source, typename Target>
void pack_converted(const PackCall& call) {
  const Source* const source = static_cast<const Source*>(call.source);
  Target* const panel = static_cast<Target*>(call.panel) + call.first_lane;
  Target block[kPanelChannels * kPackFeatures];
  for (int64_t k = 0; k < call.features; k += kPackFeatures) {
    const int64_t count = call.features - k < kPackFeatures ? call.features - k : kPackFeatures;
    for (int64_t lane = 0; lane < call.lanes; ++lane) {
      convert_values(source + lane * call.source_stride + k, count, block + lane * kPackFeatures);
    }
    transpose_lanes(elements(block), kPackFeatures, call.lanes, count, elements(panel + k * kPanelChannels));
  }
}

template <typename Target>
void pack_from(const PackCall& call) {
  switch (call.source_storage) {
    case Storage::kFloat32:
      return pack_converted<float, Target>(call);
    case Storage::kBFloat16:
      return pack_converted<BFloat16, Target>(call);
    case Storage::kFloat16:
      return pack_converted<Float16, Target>(call);
  }
}

static void pack_panel(const PackCall& call) {
  if (call.source_storage == call.storage) {
    return call.storage == Storage::kFloat32 ? pack_unchanged<float>(call) : pack_unchanged<uint16_t>(call);
  }
  switch (call.storage) {
    case Storage::kFloat32:
      return pack_from<float>(call);
    case Storage::kBFloat16:
      return pack_from<BFloat16>(call);
    case Storage::kFloat16:
      return pack_from<Float16>(call);
  }
}

template <typename T>
QUIRE_INLINE void gather_lane(const T* panel, int64_t features, int64_t lane, float* out) {
  T values[kLanes] = {};
  for (int64_t k = 0; k < features; k += kLanes) {
    const int64_t count = features - k < kLanes ? features - k : kLanes;
    for (int64_t i = 0; i < count; ++i) values[i] = panel[(k + i) * kPanelChannels + lane];
    float widened[kLanes];
    store(widened, load_as_float(values));
    memcpy(out + k, widened, sizeof(float) * static_cast<size_t>(count));
  }
}

static void gather_channel(const void* panel, Storage storage, int64_t features, int64_t lane, float* out) {
  switch (storage) {
    case Storage::kFloat32:
      return gather_lane(static_cast<const float*>(panel), features, lane, out);
    case Storage::kBFloat16:
      return gather_lane(static_cast<const BFloat16*>(panel), features, lane, out);
    case Storage::kFloat16:
      return gather_lane(static_cast<const Float16*>(panel), features, lane, out);
  }
}

}  // namespace quire::ops::cpu::QUIRE_ISA
