// Integer dot products: unsigned bytes of weights times signed bytes of rows, four features to a 32-bit lane, which is
// one output channel. Sums are exact modulo 2^32 in every ISA, so all give the same integers.
#pragma once

#include "ops/cpu/kernels/vec.h"

namespace quire::ops::cpu::QUIRE_ISA {

#if defined(QUIRE_ISA_avx512)

using Ints = __m512i;
QUIRE_INLINE Ints load_bytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
QUIRE_INLINE Ints spread(int32_t x) { return _mm512_set1_epi32(x); }
QUIRE_INLINE Ints bits_and(Ints a, Ints b) { return _mm512_and_si512(a, b); }
QUIRE_INLINE Ints bits_or(Ints a, Ints b) { return _mm512_or_si512(a, b); }
template <int kBits>
QUIRE_INLINE Ints shift_left(Ints a) {
  return _mm512_slli_epi32(a, kBits);
}
template <int kBits>
QUIRE_INLINE Ints shift_right(Ints a) {
  return _mm512_srli_epi32(a, kBits);
}
QUIRE_INLINE Vec to_float(Ints a) { return _mm512_cvtepi32_ps(a); }
QUIRE_INLINE Vec load_unsigned_bytes(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
QUIRE_INLINE Vec load_signed_bytes(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
/// Stores kLanes whole numbers in [-128, 127] as bytes.
QUIRE_INLINE void store_signed_bytes(int8_t* p, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

#elif defined(QUIRE_ISA_avx2)

using Ints = __m256i;
QUIRE_INLINE Ints load_bytes(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
QUIRE_INLINE Ints spread(int32_t x) { return _mm256_set1_epi32(x); }
QUIRE_INLINE Ints bits_and(Ints a, Ints b) { return _mm256_and_si256(a, b); }
QUIRE_INLINE Ints bits_or(Ints a, Ints b) { return _mm256_or_si256(a, b); }
template <int kBits>
QUIRE_INLINE Ints shift_left(Ints a) {
  return _mm256_slli_epi32(a, kBits);
}
template <int kBits>
QUIRE_INLINE Ints shift_right(Ints a) {
  return _mm256_srli_epi32(a, kBits);
}
QUIRE_INLINE Vec to_float(Ints a) { return _mm256_cvtepi32_ps(a); }
QUIRE_INLINE Vec load_unsigned_bytes(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
QUIRE_INLINE Vec load_signed_bytes(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
QUIRE_INLINE void store_signed_bytes(int8_t* p, Vec v) {
  const __m256i ints = _mm256_cvtps_epi32(v);
  const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(ints), _mm256_extracti128_si256(ints, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(halves, halves));
}

#else

typedef uint32_t Ints __attribute__((vector_size(16)));
typedef int16_t ShortInts __attribute__((vector_size(16)));
QUIRE_INLINE Ints load_bytes(const uint8_t* p) {
  Ints v;
  memcpy(&v, p, sizeof(v));
  return v;
}
QUIRE_INLINE Ints spread(int32_t x) {
  const uint32_t bits = static_cast<uint32_t>(x);
  return Ints{bits, bits, bits, bits};
}
QUIRE_INLINE Ints bits_and(Ints a, Ints b) { return a & b; }
QUIRE_INLINE Ints bits_or(Ints a, Ints b) { return a | b; }
template <int kBits>
QUIRE_INLINE Ints shift_left(Ints a) {
  return a << kBits;
}
template <int kBits>
QUIRE_INLINE Ints shift_right(Ints a) {
  return a >> kBits;
}
QUIRE_INLINE Vec to_float(Ints a) { return __builtin_convertvector(reinterpret_cast<VecInt>(a), Vec); }
QUIRE_INLINE Vec load_unsigned_bytes(const uint8_t* p) {
  return Vec{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]), static_cast<float>(p[3])};
}
QUIRE_INLINE Vec load_signed_bytes(const uint8_t* p) {
  return Vec{static_cast<float>(static_cast<int8_t>(p[0])), static_cast<float>(static_cast<int8_t>(p[1])),
             static_cast<float>(static_cast<int8_t>(p[2])), static_cast<float>(static_cast<int8_t>(p[3]))};
}
QUIRE_INLINE void store_signed_bytes(int8_t* p, Vec v) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(v[i]);
}

#endif

/// Four features of kLanes channels, and the same four of one row in every lane, as the dot product takes them.
#if defined(QUIRE_VNNI)

struct WeightBytes {
  Ints bytes;
};
struct RowBytes {
  Ints bytes;
};
QUIRE_INLINE WeightBytes weight_bytes(Ints bytes) { return {bytes}; }
QUIRE_INLINE RowBytes row_bytes(int32_t four) { return {spread(four)}; }
QUIRE_INLINE Ints dot(Ints sum, const WeightBytes& weight, const RowBytes& row) {
  return _mm512_dpbusd_epi32(sum, weight.bytes, row.bytes);
}

#else

/// The bytes of even and of odd places, widened to 16 bits.
struct WeightBytes {
  Ints even;
  Ints odd;
};
struct RowBytes {
  Ints even;
  Ints odd;
};
#if defined(QUIRE_ISA_avx512)
QUIRE_INLINE WeightBytes weight_bytes(Ints bytes) {
  return {bits_and(bytes, spread(0x00ff00ff)), _mm512_srli_epi16(bytes, 8)};
}
QUIRE_INLINE RowBytes row_bytes(int32_t four) {
  const Ints bytes = spread(four);
  return {_mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8), _mm512_srai_epi16(bytes, 8)};
}
QUIRE_INLINE Ints dot(Ints sum, const WeightBytes& weight, const RowBytes& row) {
  return _mm512_add_epi32(
      sum, _mm512_add_epi32(_mm512_madd_epi16(weight.even, row.even), _mm512_madd_epi16(weight.odd, row.odd)));
}
#elif defined(QUIRE_ISA_avx2)
QUIRE_INLINE WeightBytes weight_bytes(Ints bytes) {
  return {bits_and(bytes, spread(0x00ff00ff)), _mm256_srli_epi16(bytes, 8)};
}
QUIRE_INLINE RowBytes row_bytes(int32_t four) {
  const Ints bytes = spread(four);
  return {_mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8), _mm256_srai_epi16(bytes, 8)};
}
QUIRE_INLINE Ints dot(Ints sum, const WeightBytes& weight, const RowBytes& row) {
  return _mm256_add_epi32(
      sum, _mm256_add_epi32(_mm256_madd_epi16(weight.even, row.even), _mm256_madd_epi16(weight.odd, row.odd)));
}
#else
QUIRE_INLINE WeightBytes weight_bytes(Ints bytes) { return {bytes & 0x00ff00ffu, (bytes >> 8) & 0x00ff00ffu}; }
QUIRE_INLINE RowBytes row_bytes(int32_t four) {
  const ShortInts bytes = reinterpret_cast<ShortInts>(spread(four));
  return {reinterpret_cast<Ints>((bytes << 8) >> 8), reinterpret_cast<Ints>(bytes >> 8)};
}
/// The sum of the two 16-bit products in each lane; 255 * 128 fits into 16 bits.
QUIRE_INLINE Ints pair_products(Ints weight, Ints row) {
  const VecInt products =
      reinterpret_cast<VecInt>(reinterpret_cast<ShortInts>(weight) * reinterpret_cast<ShortInts>(row));
  return reinterpret_cast<Ints>((products << 16) >> 16) + reinterpret_cast<Ints>(products >> 16);
}
QUIRE_INLINE Ints dot(Ints sum, const WeightBytes& weight, const RowBytes& row) {
  return sum + pair_products(weight.even, row.even) + pair_products(weight.odd, row.odd);
}
#endif

#endif

}  // namespace quire::ops::cpu::QUIRE_ISA
