// The multiply loops are one block of assembly each with fixed registers: a compiler that spills the accumulators
// halves what is measured. Assembly also lets instructions beyond the ISA's compiler flags be named; the resolver hands
// them out only where cpuid offers them.
#include "ops/cpu/kernels/machine.h"

#include "ops/cpu/kernels/vec.h"

namespace quire::ops::cpu::QUIRE_ISA {
namespace {

// One instruction on each of several accumulators: enough of them to hide the latency of four or five cycles at two a
// cycle.
#define QUIRE_REPEAT_8(op, r) op(r, 0) op(r, 1) op(r, 2) op(r, 3) op(r, 4) op(r, 5) op(r, 6) op(r, 7)
#define QUIRE_REPEAT_12(op, r) QUIRE_REPEAT_8(op, r) op(r, 8) op(r, 9) op(r, 10) op(r, 11)
#define QUIRE_REPEAT_16(op, r) QUIRE_REPEAT_12(op, r) op(r, 12) op(r, 13) op(r, 14) op(r, 15)
#define QUIRE_CLEAR(r, i) "vxorps %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n\t"
#define QUIRE_LOW_REGISTERS                                                                                           \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", \
      "xmm14", "xmm15"

#if defined(QUIRE_ISA_avx512)

#define QUIRE_LOOP(instruction) \
  __asm__ volatile(QUIRE_REPEAT_16(QUIRE_CLEAR, )                                                   \
                   "vpxord %%zmm30, %%zmm30, %%zmm30\n\tvpxord %%zmm31, %%zmm31, %%zmm31\n\t1:\n\t" \
                   QUIRE_REPEAT_16(instruction, zmm) "dec %0\n\tjnz 1b\n\tvzeroupper"                \
                   : "+r"(iterations)                                                               \
                   :                                                                                \
                   : QUIRE_LOW_REGISTERS, "xmm30", "xmm31", "cc")
#define QUIRE_FMA(r, i) "vfmadd231ps %%" #r "31, %%" #r "30, %%" #r #i "\n\t"
#define QUIRE_BF16_DOT(r, i) "vdpbf16ps %%" #r "31, %%" #r "30, %%" #r #i "\n\t"
#define QUIRE_INT8_DOT(r, i) "vpdpbusd %%" #r "31, %%" #r "30, %%" #r #i "\n\t"

void float32_loop(int64_t iterations) { QUIRE_LOOP(QUIRE_FMA); }
void bf16_dot_loop(int64_t iterations) { QUIRE_LOOP(QUIRE_BF16_DOT); }
void int8_dot_loop(int64_t iterations) { QUIRE_LOOP(QUIRE_INT8_DOT); }

uint64_t read_all(const void* data, size_t bytes) {
  const char* const begin = static_cast<const char*>(data);
  __m512i sum[8];
  for (int k = 0; k < 8; ++k) sum[k] = _mm512_setzero_si512();
  for (size_t i = 0; i < bytes; i += 512) {
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) sum[k] = _mm512_or_si512(sum[k], _mm512_load_si512(begin + i + 64 * k));
  }
  for (int k = 1; k < 8; ++k) sum[0] = _mm512_or_si512(sum[0], sum[k]);
  alignas(64) uint64_t lanes[8];
  _mm512_store_si512(lanes, sum[0]);
  return lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3] ^ lanes[4] ^ lanes[5] ^ lanes[6] ^ lanes[7];
}

constexpr MultiplyLoop kFloat32 = {float32_loop, 16 * 16 * 2};
constexpr MultiplyLoop kBf16Dot = {bf16_dot_loop, 16 * 32 * 2};
constexpr MultiplyLoop kInt8Dot = {int8_dot_loop, 16 * 64 * 2};

#elif defined(QUIRE_ISA_avx2)

#define QUIRE_LOOP(instruction)                                                                                      \
  __asm__ volatile(QUIRE_REPEAT_12(QUIRE_CLEAR, ) QUIRE_CLEAR(, 14)                                                  \
                       QUIRE_CLEAR(, 15) "1:\n\t" QUIRE_REPEAT_12(instruction, ymm) "dec %0\n\tjnz 1b\n\tvzeroupper" \
                   : "+r"(iterations)                                                                                \
                   :                                                                                                 \
                   : QUIRE_LOW_REGISTERS, "cc")
#define QUIRE_FMA(r, i) "vfmadd231ps %%" #r "15, %%" #r "14, %%" #r #i "\n\t"
#define QUIRE_INT8_DOT(r, i) "%{vex%} vpdpbusd %%" #r "15, %%" #r "14, %%" #r #i "\n\t"

void float32_loop(int64_t iterations) { QUIRE_LOOP(QUIRE_FMA); }
void int8_dot_loop(int64_t iterations) { QUIRE_LOOP(QUIRE_INT8_DOT); }

uint64_t read_all(const void* data, size_t bytes) {
  const char* const begin = static_cast<const char*>(data);
  __m256i sum[8];
  for (int k = 0; k < 8; ++k) sum[k] = _mm256_setzero_si256();
  for (size_t i = 0; i < bytes; i += 256) {
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
      sum[k] = _mm256_or_si256(sum[k], _mm256_load_si256(reinterpret_cast<const __m256i*>(begin + i + 32 * k)));
    }
  }
  for (int k = 1; k < 8; ++k) sum[0] = _mm256_or_si256(sum[0], sum[k]);
  alignas(32) uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum[0]);
  return lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3];
}

constexpr MultiplyLoop kFloat32 = {float32_loop, 12 * 8 * 2};
constexpr MultiplyLoop kBf16Dot = {nullptr, 0};
constexpr MultiplyLoop kInt8Dot = {int8_dot_loop, 12 * 32 * 2};

#else

#if defined(__x86_64__)

// SSE has no fused form: six accumulators take multiplications while six take additions.
#define QUIRE_CLEAR_SSE(r, i) "xorps %%xmm" #i ", %%xmm" #i "\n\t"
#define QUIRE_MULTIPLY(i) "mulps %%xmm14, %%xmm" #i "\n\t"
#define QUIRE_ADD(i) "addps %%xmm15, %%xmm" #i "\n\t"

void float32_loop(int64_t iterations) {
  __asm__ volatile(QUIRE_REPEAT_16(QUIRE_CLEAR_SSE, ) "1:\n\t" QUIRE_MULTIPLY(0) QUIRE_ADD(6) QUIRE_MULTIPLY(1)
                       QUIRE_ADD(7) QUIRE_MULTIPLY(2) QUIRE_ADD(8) QUIRE_MULTIPLY(3) QUIRE_ADD(9) QUIRE_MULTIPLY(4)
                           QUIRE_ADD(10) QUIRE_MULTIPLY(5) QUIRE_ADD(11) "dec %0\n\tjnz 1b"
                   : "+r"(iterations)
                   :
                   : QUIRE_LOW_REGISTERS, "cc");
}
constexpr double kFloat32Operations = 12 * 4;

#else

void float32_loop(int64_t iterations) {
  float sum[64] = {};
  float factor = 1.0f;
  for (int64_t i = 0; i < iterations; ++i) {
    __asm__ volatile("" : "+m"(factor));
    for (int k = 0; k < 64; ++k) sum[k] = sum[k] * factor + factor;
  }
  __asm__ volatile("" : : "m"(sum));
}
constexpr double kFloat32Operations = 64 * 2;

#endif

uint64_t read_all(const void* data, size_t bytes) {
  const uint64_t* const words = static_cast<const uint64_t*>(data);
  uint64_t sum[16] = {};
  for (size_t i = 0; i < bytes / 8; i += 16) {
    for (int k = 0; k < 16; ++k) sum[k] |= words[i + static_cast<size_t>(k)];
  }
  uint64_t all = 0;
  for (int k = 0; k < 16; ++k) all ^= sum[k];
  return all;
}

constexpr MultiplyLoop kFloat32 = {float32_loop, kFloat32Operations};
constexpr MultiplyLoop kBf16Dot = {nullptr, 0};
constexpr MultiplyLoop kInt8Dot = {nullptr, 0};

#endif

}  // namespace

extern const MachineKernels machine_kernels;
const MachineKernels machine_kernels = {read_all, kFloat32, kBf16Dot, kInt8Dot};

}  // namespace quire::ops::cpu::QUIRE_ISA
