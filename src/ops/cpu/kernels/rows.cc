// Kernels over one row. Sums run in vector lanes in an order that depends on the row's length alone.
#include "ops/cpu/kernels/rows.h"

#include "ops/cpu/kernels/vec_math.h"

namespace quire::ops::cpu::QUIRE_ISA {
namespace {

/// The last count < kLanes values of a row, filled up with `padding`.
QUIRE_INLINE Vec load_part(const float* x, int64_t count, float padding) {
  float lanes[kLanes];
  store(lanes, set1(padding));
  memcpy(lanes, x, static_cast<size_t>(count) * sizeof(float));
  return load(lanes);
}
QUIRE_INLINE void store_part(float* x, int64_t count, Vec v) {
  float lanes[kLanes];
  store(lanes, v);
  memcpy(x, lanes, static_cast<size_t>(count) * sizeof(float));
}

float sum_of_squares(const float* x, int64_t n) {
  Vec sums[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const Vec v = load(x + i + j * kLanes);
      sums[j] = fma(v, v, sums[j]);
    }
  }
  for (; i + kLanes <= n; i += kLanes) {
    const Vec v = load(x + i);
    sums[0] = fma(v, v, sums[0]);
  }
  if (i < n) {
    const Vec v = load_part(x + i, n - i, 0.0f);
    sums[1] = fma(v, v, sums[1]);
  }
  return reduce_add(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

void rms_norm(const float* x, const float* weight, float epsilon, int64_t n, float* out) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const Vec scale = set1(1.0f / sqrtf(mean + epsilon));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, mul(mul(load(x + i), scale), load(weight + i)));
  if (i < n) {
    const Vec v = mul(mul(load_part(x + i, n - i, 0.0f), scale), load_part(weight + i, n - i, 0.0f));
    store_part(out + i, n - i, v);
  }
}

float sum_of(const float* x, int64_t n) {
  Vec sums[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sums[j] = add(sums[j], load(x + i + j * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) sums[0] = add(sums[0], load(x + i));
  if (i < n) sums[1] = add(sums[1], load_part(x + i, n - i, 0.0f));
  return reduce_add(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

/// The sum of (x - mean)^2: a second pass, since the sum of squares less the square of the sum would lose its digits.
float sum_of_squared_deviations(const float* x, float mean, int64_t n) {
  const Vec center = set1(mean);
  Vec sums[2] = {zero(), zero()};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const Vec v = sub(load(x + i + j * kLanes), center);
      sums[j] = fma(v, v, sums[j]);
    }
  }
  for (; i < n; i += kLanes) {
    const Vec v = sub(n - i >= kLanes ? load(x + i) : load_part(x + i, n - i, mean), center);
    sums[0] = fma(v, v, sums[0]);
  }
  return reduce_add(add(sums[0], sums[1]));
}

void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, int64_t n, float* out) {
  const float mean = sum_of(x, n) / static_cast<float>(n);
  const float variance = sum_of_squared_deviations(x, mean, n) / static_cast<float>(n);
  const Vec center = set1(mean);
  const Vec scale = set1(1.0f / sqrtf(variance + epsilon));
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t count = n - i;
    const bool whole = count >= kLanes;
    const Vec v = whole ? load(x + i) : load_part(x + i, count, mean);
    const Vec w = whole ? load(weight + i) : load_part(weight + i, count, 0.0f);
    Vec b = zero();
    if (bias != nullptr) b = whole ? load(bias + i) : load_part(bias + i, count, 0.0f);
    const Vec result = add(mul(mul(sub(v, center), scale), w), b);
    if (whole) {
      store(out + i, result);
    } else {
      store_part(out + i, count, result);
    }
  }
}

void add_rows(const float* y, int64_t n, float* x) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, add(load(x + i), load(y + i)));
  for (; i < n; ++i) x[i] += y[i];
}

void scale_row(float factor, int64_t n, float* x) {
  const Vec factors = set1(factor);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, mul(load(x + i), factors));
  for (; i < n; ++i) x[i] *= factor;
}

QUIRE_INLINE void rotate_vectors(Vec cosine, Vec sine, Vec first, Vec second, Vec& out_first, Vec& out_second) {
  out_first = sub(mul(first, cosine), mul(second, sine));
  out_second = add(mul(second, cosine), mul(first, sine));
}

void rotate(const float* cosines, const float* sines, int64_t half, float* x) {
  int64_t i = 0;
  Vec first;
  Vec second;
  for (; i + kLanes <= half; i += kLanes) {
    rotate_vectors(load(cosines + i), load(sines + i), load(x + i), load(x + half + i), first, second);
    store(x + i, first);
    store(x + half + i, second);
  }
  if (i < half) {
    const int64_t rest = half - i;
    rotate_vectors(load_part(cosines + i, rest, 1.0f), load_part(sines + i, rest, 0.0f), load_part(x + i, rest, 0.0f),
                   load_part(x + half + i, rest, 0.0f), first, second);
    store_part(x + i, rest, first);
    store_part(x + half + i, rest, second);
  }
}

/// x / (1 + exp(-x)).
struct Silu {
  __attribute__((always_inline)) static inline Vec of(Vec x) { return div(x, add(set1(1.0f), exp(sub(zero(), x)))); }
};
/// x times the normal distribution's cumulative function.
struct Gelu {
  __attribute__((always_inline)) static inline Vec of(Vec x) { return mul(x, normal_cdf(x)); }
};
/// x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), written as x * sigmoid of twice that argument: far below 0 the
/// sum of 1 and tanh would lose all its digits.
struct GeluTanh {
  __attribute__((always_inline)) static inline Vec of(Vec x) {
    const Vec cubic = fma(mul(mul(x, x), x), set1(0.044715f), x);
    return div(x, add(set1(1.0f), exp(mul(cubic, set1(-1.5957691216057308f)))));
  }
};
struct Relu {
  __attribute__((always_inline)) static inline Vec of(Vec x) { return select_less(x, zero(), zero(), x); }
};

template <typename Function>
void plain(const float* x, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, Function::of(load(x + i)));
  if (i < n) store_part(out + i, n - i, Function::of(load_part(x + i, n - i, 0.0f)));
}

template <typename Function>
void gated(const float* gate, const float* up, int64_t n, float* out) {
  if (up == nullptr) return plain<Function>(gate, n, out);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, mul(Function::of(load(gate + i)), load(up + i)));
  if (i < n) {
    const Vec v = mul(Function::of(load_part(gate + i, n - i, 0.0f)), load_part(up + i, n - i, 0.0f));
    store_part(out + i, n - i, v);
  }
}

LogitsBlock logits_block(const float* x, int64_t n) {
  Vec highest[2] = {set1(-INFINITY), set1(-INFINITY)};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    highest[0] = max(load(x + i), highest[0]);  // a NaN as first operand yields the second
    highest[1] = max(load(x + i + kLanes), highest[1]);
  }
  float maximum = reduce_max(max(highest[0], highest[1]));
  for (; i < n; ++i) maximum = x[i] > maximum ? x[i] : maximum;

  const Vec shift = set1(isinf(maximum) ? 0.0f : maximum);
  Vec sum = zero();
  Vec not_a_number = zero();
  for (i = 0; i < n; i += kLanes) {
    const Vec v = n - i >= kLanes ? load(x + i) : load_part(x + i, n - i, -INFINITY);
    sum = add(sum, exp(sub(v, shift)));
    not_a_number = add(not_a_number, select_less(v, set1(INFINITY), zero(), sub(v, set1(INFINITY))));
  }
  const float nan = reduce_add(not_a_number);
  if (isinf(maximum)) return {maximum, nan != nan && maximum < 0.0f ? nan : 0.0f};
  return {maximum, reduce_add(sum) + nan};
}

int64_t find_larger(const float* x, int64_t begin, int64_t n, float value) {
  const Vec bound = set1(value);
  int64_t i = begin;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    Vec highest = bound;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) highest = max(load(x + i + j * kLanes), highest);
    if (reduce_max(highest) > value) break;
  }
  for (; i < n; ++i) {
    if (x[i] > value) return i;
  }
  return n;
}

int64_t count_larger(const float* x, int64_t n, float value) {
  constexpr int64_t kExact = int64_t{1} << 20;  // counts in float lanes stay exact
  const Vec bound = set1(value);
  int64_t total = 0;
  int64_t i = 0;
  while (i + kLanes <= n) {
    Vec counts = zero();
    for (int64_t steps = 0; steps < kExact && i + kLanes <= n; ++steps, i += kLanes) {
      counts = add(counts, select_less(bound, load(x + i), set1(1.0f), zero()));
    }
    float lanes[kLanes];
    store(lanes, counts);
    for (int lane = 0; lane < kLanes; ++lane) total += static_cast<int64_t>(lanes[lane]);
  }
  for (; i < n; ++i) total += x[i] > value ? 1 : 0;
  return total;
}

}  // namespace

extern const RowKernels row_kernels;
const RowKernels row_kernels = {rms_norm,    layer_norm,      add_rows,    scale_row,    rotate,      gated<Silu>,
                                gated<Gelu>, gated<GeluTanh>, gated<Relu>, logits_block, find_larger, count_larger};

}  // namespace quire::ops::cpu::QUIRE_ISA
