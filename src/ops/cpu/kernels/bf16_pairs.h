// Pairs of bfloat16 features multiplied by vdpbf16ps: for CPUs whose dot product does twice the work of a float32
// multiply-add. Included by what is compiled with AVX512_BF16 (QUIRE_BF16_DOT).
//
// A lane adds, for each pair in turn, the product of the pair's second features and then that of its first ones to the
// sum, each rounded to nearest even, subnormal numbers as zero (Intel SDM volume 2, VDPBF16PS).
#pragma once

#include "ops/cpu/kernels/linear.h"
#include "ops/cpu/kernels/vec.h"

namespace quire::ops::cpu::QUIRE_ISA {

/// Two features of one channel. A panel's bfloat16 weights are read so: 64 bytes hold two features of its 16 channels,
/// feature by feature.
struct Bf16Pair {
  uint16_t first;
  uint16_t second;
};

/// Element i of a vector's lower half and of its upper half, side by side in lane i.
QUIRE_INLINE Vec pair_halves(__m512i halves) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(_mm512_load_si512(kOrder), halves));
}

/// Two features of a panel, each channel's side by side in its lane.
QUIRE_INLINE Vec load_as_float(const Bf16Pair* p) { return pair_halves(_mm512_loadu_si512(p)); }

/// sum plus x's pair times the weight's, in each lane.
QUIRE_INLINE Vec dot_pairs(Vec x, Vec weight, Vec sum) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(weight));
}

/// Rounds `features` (even) values to bfloat16, nearest even; subnormal ones to zero, which is how the dot product
/// takes them.
[[maybe_unused]] static void round_to_pairs(const float* x, int64_t features, float* prepared) {
  uint16_t* const target = reinterpret_cast<uint16_t*>(prepared);
  int64_t k = 0;
  for (; k + 2 * kLanes <= features; k += 2 * kLanes) {
    const __m512bh rounded = _mm512_cvtne2ps_pbh(load(x + k + kLanes), load(x + k));
    _mm512_storeu_si512(target + k, reinterpret_cast<__m512i>(rounded));
  }
  for (; k < features; k += kLanes) {
    const int64_t left = features - k;
    const __mmask16 rest = static_cast<__mmask16>(left >= kLanes ? 0xffff : (1u << left) - 1);
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(rest, x + k));
    _mm256_mask_storeu_epi16(target + k, rest, reinterpret_cast<__m256i>(rounded));
  }
}

}  // namespace quire::ops::cpu::QUIRE_ISA
