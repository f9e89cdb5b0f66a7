// The kernels that go over rows of float32: norms, activations, rotary embedding, and scans of logits. Included by the
// kernels and by the ops alike, so only C headers and no external inline code.
#pragma once

#include <stdint.h>

namespace quire::ops::cpu {

/// One block of a row of logits, for log-sum-exp. A NaN is no maximum, but makes `sum` NaN.
struct LogitsBlock {
  float maximum;  ///< -infinity when nothing is larger than that
  float sum;      ///< of exp(logit - maximum); 0 when the maximum is infinite
};

struct RowKernels {
  /// out = x / sqrt(mean(x^2) + epsilon) * weight. out may be x.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int64_t n, float* out);
  /// out = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias; a bias of nullptr is none. out may be x.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float epsilon, int64_t n, float* out);
  /// x += y.
  void (*add)(const float* y, int64_t n, float* x);
  /// x *= factor.
  void (*scale)(float factor, int64_t n, float* x);
  /// Rotates x[i] and x[half + i] by the angle whose cosine and sine are cosines[i] and sines[i].
  void (*rotate)(const float* cosines, const float* sines, int64_t half, float* x);

  /// out = activation(gate) * up; an up of nullptr is 1. out may be gate.
  void (*silu)(const float* gate, const float* up, int64_t n, float* out);
  void (*gelu)(const float* gate, const float* up, int64_t n, float* out);
  void (*gelu_tanh)(const float* gate, const float* up, int64_t n, float* out);
  void (*relu)(const float* gate, const float* up, int64_t n, float* out);

  LogitsBlock (*logits_block)(const float* x, int64_t n);
  /// The first index in [begin, n) with x[index] > value, or n.
  int64_t (*find_larger)(const float* x, int64_t begin, int64_t n, float value);
  int64_t (*count_larger)(const float* x, int64_t n, float value);
};

}  // namespace quire::ops::cpu
