// Elementary functions of a vector beyond vec.h's exp.
#pragma once

#include "ops/cpu/kernels/vec.h"

namespace quire::ops::cpu::QUIRE_ISA {

QUIRE_INLINE Vec absolute(Vec x) { return max(x, sub(zero(), x)); }

/// tanh(x) to 3e-7 relative; a NaN or an infinity gives NaN. Near 0 the odd polynomial (a Chebyshev fit on [0, 0.64]),
/// farther out 1 - 2 / (exp(2|x|) + 1), from 10 on x / |x|.
QUIRE_INLINE Vec tanh(Vec x) {
  const Vec size = absolute(x);
  const Vec square = mul(x, x);
  Vec p = set1(-6.0017994434760314e-3f);
  p = fma(p, square, set1(2.0931423044981773e-2f));
  p = fma(p, square, set1(-5.383701616066543e-2f));
  p = fma(p, square, set1(1.3332678995133276e-1f));
  p = fma(p, square, set1(-3.3333328066071216e-1f));
  const Vec near = fma(mul(p, square), x, x);
  const Vec large = sub(set1(1.0f), div(set1(2.0f), add(exp(add(size, size)), set1(1.0f))));
  const Vec far = select_less(x, zero(), sub(zero(), large), large);
  const Vec farthest = div(x, size);
  return select_less(size, set1(0.625f), near, select_less(size, set1(10.0f), far, farthest));
}

/// The normal distribution's cumulative function, erfc(-x / sqrt(2)) / 2: to 1e-6 relative from x = -4 on; below, the
/// rounding of the exponent shows, x^2 1e-7 relative.
/// erfc(t) = u exp(-t^2 + P(u)) with u = 1 / (1 + t / 2) and P a Chebyshev fit of degree 9 for all t >= 0.
QUIRE_INLINE Vec normal_cdf(Vec x) {
  const Vec t = mul(absolute(x), set1(0.70710678118654752f));
  const Vec u = div(set1(1.0f), fma(t, set1(0.5f), set1(1.0f)));
  Vec p = set1(0.17087277768550854f);
  p = fma(p, u, set1(-0.8221522344638291f));
  p = fma(p, u, set1(1.4885158893386012f));
  p = fma(p, u, set1(-1.1352040004919566f));
  p = fma(p, u, set1(0.27886808454954504f));
  p = fma(p, u, set1(-0.18628806170071985f));
  p = fma(p, u, set1(0.09678418949778485f));
  p = fma(p, u, set1(0.37409195971773723f));
  p = fma(p, u, set1(1.0000236801578442f));
  p = fma(p, u, set1(-1.2655122251416064f));
  const Vec tail = mul(mul(set1(0.5f), u), exp(fma(sub(zero(), t), t, p)));
  return select_less(x, zero(), tail, sub(set1(1.0f), tail));
}

}  // namespace quire::ops::cpu::QUIRE_ISA
