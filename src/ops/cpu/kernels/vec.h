// One vector of float32 lanes in each ISA's widest form, so that a kernel is written once and compiled per ISA.
//
// Kernels are compiled several times with different instruction sets. What they include must therefore not define
// inline functions with external linkage (the linker would keep one copy, perhaps with instructions that the CPU
// lacks): only C headers, intrinsics and files of this folder, whose code lies in a namespace named after the ISA.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(QUIRE_ISA_avx512) || defined(QUIRE_ISA_avx2)
#include <immintrin.h>
#endif

#define QUIRE_INLINE static inline __attribute__((always_inline))

namespace quire::ops::cpu::QUIRE_ISA {

#if defined(QUIRE_ISA_avx512)

using Vec = __m512;
constexpr int kLanes = 16;

QUIRE_INLINE Vec load(const float* p) { return _mm512_loadu_ps(p); }
QUIRE_INLINE void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
QUIRE_INLINE Vec set1(float x) { return _mm512_set1_ps(x); }
QUIRE_INLINE Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
QUIRE_INLINE Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
QUIRE_INLINE Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
QUIRE_INLINE Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
QUIRE_INLINE Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
QUIRE_INLINE Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
QUIRE_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
QUIRE_INLINE Vec round_nearest(Vec v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
QUIRE_INLINE Vec pow2(Vec n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}
/// a < b ? x : y in each lane.
QUIRE_INLINE Vec select_less(Vec a, Vec b, Vec x, Vec y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
QUIRE_INLINE Vec load_bf16(const uint16_t* p) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
QUIRE_INLINE Vec load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
QUIRE_INLINE void store_bf16(uint16_t* p, Vec v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x00400000));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}
QUIRE_INLINE void store_f16(uint16_t* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#elif defined(QUIRE_ISA_avx2)

using Vec = __m256;
constexpr int kLanes = 8;

QUIRE_INLINE Vec load(const float* p) { return _mm256_loadu_ps(p); }
QUIRE_INLINE void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
QUIRE_INLINE Vec set1(float x) { return _mm256_set1_ps(x); }
QUIRE_INLINE Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
QUIRE_INLINE Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
QUIRE_INLINE Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
QUIRE_INLINE Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
QUIRE_INLINE Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
QUIRE_INLINE Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
QUIRE_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
QUIRE_INLINE Vec round_nearest(Vec v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
QUIRE_INLINE Vec pow2(Vec n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
QUIRE_INLINE Vec select_less(Vec a, Vec b, Vec x, Vec y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
QUIRE_INLINE Vec load_bf16(const uint16_t* p) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}
QUIRE_INLINE Vec load_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
QUIRE_INLINE void store_bf16(uint16_t* p, Vec v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  rounded = _mm256_blendv_epi8(rounded, _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000)), nan);
  rounded = _mm256_srli_epi32(rounded, 16);
  const __m128i low = _mm256_castsi256_si128(rounded);
  const __m128i high = _mm256_extracti128_si256(rounded, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packus_epi32(low, high));
}
QUIRE_INLINE void store_f16(uint16_t* p, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#else  // generic: the compiler's own vectors, four lanes, no fused multiply-add

typedef float Vec __attribute__((vector_size(16)));
typedef int32_t VecInt __attribute__((vector_size(16)));
constexpr int kLanes = 4;

QUIRE_INLINE Vec load(const float* p) {
  Vec v;
  memcpy(&v, p, sizeof(v));
  return v;
}
QUIRE_INLINE void store(float* p, Vec v) { memcpy(p, &v, sizeof(v)); }
QUIRE_INLINE Vec set1(float x) { return Vec{x, x, x, x}; }
QUIRE_INLINE Vec add(Vec a, Vec b) { return a + b; }
QUIRE_INLINE Vec sub(Vec a, Vec b) { return a - b; }
QUIRE_INLINE Vec mul(Vec a, Vec b) { return a * b; }
QUIRE_INLINE Vec div(Vec a, Vec b) { return a / b; }
QUIRE_INLINE Vec max(Vec a, Vec b) { return a > b ? a : b; }
QUIRE_INLINE Vec min(Vec a, Vec b) { return a < b ? a : b; }
QUIRE_INLINE Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
QUIRE_INLINE Vec round_nearest(Vec v) {
  const Vec magic = set1(12582912.0f);  // 1.5 * 2^23: adding it leaves no bits for a fraction; right for |v| < 2^22
  return (v + magic) - magic;
}
QUIRE_INLINE Vec pow2(Vec n) {
  VecInt bits = (__builtin_convertvector(n, VecInt) + 127) << 23;
  Vec v;
  memcpy(&v, &bits, sizeof(v));
  return v;
}
QUIRE_INLINE Vec select_less(Vec a, Vec b, Vec x, Vec y) { return a < b ? x : y; }
QUIRE_INLINE float bf16_to_float(uint16_t h) {
  uint32_t bits = static_cast<uint32_t>(h) << 16;
  float f;
  memcpy(&f, &bits, sizeof(f));
  return f;
}
QUIRE_INLINE Vec load_bf16(const uint16_t* p) {
  return Vec{bf16_to_float(p[0]), bf16_to_float(p[1]), bf16_to_float(p[2]), bf16_to_float(p[3])};
}
QUIRE_INLINE float f16_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t magnitude = h & 0x7fffu;
  uint32_t bits;
  if (magnitude >= 0x7c00u) {  // infinity, NaN
    bits = sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13);
  } else if (magnitude >= 0x400u) {
    bits = sign | ((magnitude + 0x1c000u) << 13);
  } else {  // zero, subnormal: exact in float32
    float f = static_cast<float>(magnitude) * 5.9604644775390625e-8f;
    memcpy(&bits, &f, sizeof(bits));
    bits |= sign;
  }
  float f;
  memcpy(&f, &bits, sizeof(f));
  return f;
}
QUIRE_INLINE Vec load_f16(const uint16_t* p) {
  return Vec{f16_to_float(p[0]), f16_to_float(p[1]), f16_to_float(p[2]), f16_to_float(p[3])};
}
QUIRE_INLINE uint16_t float_to_bf16(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);  // NaN stays one, quiet
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
QUIRE_INLINE void store_bf16(uint16_t* p, Vec v) {
  for (int i = 0; i < kLanes; ++i) p[i] = float_to_bf16(v[i]);
}
QUIRE_INLINE uint16_t float_to_f16(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof(bits));
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t result;
  if (magnitude > 0x7f800000u) {  // NaN: quiet, the payload's upper bits kept
    result = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
    result = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // normal
    result = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  } else {  // subnormal, zero: the sum's last place is 2^-24, float16's smallest step, so the addition rounds as needed
    float shifted;
    memcpy(&shifted, &magnitude, sizeof(shifted));
    shifted += 0.5f;
    memcpy(&result, &shifted, sizeof(result));
    result -= 0x3f000000u;
  }
  return static_cast<uint16_t>(sign | result);
}
QUIRE_INLINE void store_f16(uint16_t* p, Vec v) {
  for (int i = 0; i < kLanes; ++i) p[i] = float_to_f16(v[i]);
}

#endif

QUIRE_INLINE Vec zero() { return set1(0.0f); }

/// Loads kLanes values stored as float32 (T = float), or as bfloat16 / float16 by the tags below.
struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};
QUIRE_INLINE Vec load_as_float(const float* p) { return load(p); }
QUIRE_INLINE Vec load_as_float(const BFloat16* p) { return load_bf16(&p->bits); }
QUIRE_INLINE Vec load_as_float(const Float16* p) { return load_f16(&p->bits); }
/// Stores kLanes values rounded to nearest even; a NaN becomes a quiet NaN.
QUIRE_INLINE void store_from_float(float* p, Vec v) { store(p, v); }
QUIRE_INLINE void store_from_float(BFloat16* p, Vec v) { store_bf16(&p->bits, v); }
QUIRE_INLINE void store_from_float(Float16* p, Vec v) { store_f16(&p->bits, v); }

/// reduce_add: the sum of the lanes in a fixed order: halves are added until one is left. reduce_max: the largest lane,
/// where none is NaN.
#if defined(QUIRE_ISA_avx512) || defined(QUIRE_ISA_avx2)
/// Folds a vector's halves with `fold` until one lane is left.
#define QUIRE_FOLD_QUARTER(fold, v)                                                \
  v = fold(v, _mm_movehl_ps(v, v));                                                \
  return _mm_cvtss_f32(fold(v, _mm_shuffle_ps(v, v, _MM_SHUFFLE(1, 1, 1, 1))))
QUIRE_INLINE float sum_quarter(__m128 v) { QUIRE_FOLD_QUARTER(_mm_add_ps, v); }
QUIRE_INLINE float max_quarter(__m128 v) { QUIRE_FOLD_QUARTER(_mm_max_ps, v); }
#undef QUIRE_FOLD_QUARTER
QUIRE_INLINE float sum_half(__m256 v) {
  return sum_quarter(_mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)));
}
QUIRE_INLINE float max_half(__m256 v) {
  return max_quarter(_mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)));
}
#if defined(QUIRE_ISA_avx512)
QUIRE_INLINE float reduce_add(Vec v) {
  return sum_half(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}
QUIRE_INLINE float reduce_max(Vec v) {
  return max_half(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}
#else
QUIRE_INLINE float reduce_add(Vec v) { return sum_half(v); }
QUIRE_INLINE float reduce_max(Vec v) { return max_half(v); }
#endif
#else
QUIRE_INLINE float reduce_add(Vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }
QUIRE_INLINE float reduce_max(Vec v) {
  float best = v[0];
  for (int i = 1; i < kLanes; ++i) best = v[i] > best ? v[i] : best;
  return best;
}
#endif

QUIRE_INLINE float first_lane(Vec v) {
  float first;
  memcpy(&first, &v, sizeof(first));
  return first;
}

/// exp(r) for |r| <= ln 2 / 2: the minimax polynomial of Cephes' expf (Moshier).
QUIRE_INLINE Vec exp_of_rest(Vec r) {
  Vec p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  return fma(p, mul(r, r), add(r, set1(1.0f)));
}
/// x less n times ln 2, in two parts.
QUIRE_INLINE Vec rest_of(Vec x, Vec n) {
  return fma(n, set1(2.12194440e-4f), fma(n, set1(-0.693359375f), x));
}

/// exp(x), within 2 ulp for x in [-87.3, 88.7]; 0 below that range, the largest finite result above it.
QUIRE_INLINE Vec exp(Vec x) {
  const Vec lowest = set1(-87.33654f);
  const Vec clamped = min(max(x, lowest), set1(88.37626f));
  const Vec n = round_nearest(mul(clamped, set1(1.44269504088896341f)));
  return select_less(x, lowest, zero(), mul(exp_of_rest(rest_of(clamped, n)), pow2(n)));
}

/// exp(x) of an x that is not above 0, in fewer operations where the ISA has them. A NaN may give any finite value.
QUIRE_INLINE Vec exp_of_negative(Vec x) {
#if defined(QUIRE_ISA_avx512)
  const Vec clamped = max(x, set1(-105.0f));  // there the result is too small for a subnormal number: 0
  const Vec n = round_nearest(mul(clamped, set1(1.44269504088896341f)));
  return _mm512_scalef_ps(exp_of_rest(rest_of(clamped, n)), n);
#else
  return exp(x);
#endif
}

}  // namespace quire::ops::cpu::QUIRE_ISA
