#include "ops/cpu/cpu_isa.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>
#endif

namespace quire::ops::cpu {

#if defined(__x86_64__)
namespace {

// Bits of cpuid leaf 1 ECX, leaf 7 EBX, and of XCR0 (Intel SDM volume 2, CPUID; volume 1, section 13.3).
constexpr uint32_t kFma = 1u << 12;
constexpr uint32_t kOsXsave = 1u << 27;
constexpr uint32_t kAvx = 1u << 28;
constexpr uint32_t kF16c = 1u << 29;
constexpr uint32_t kAvx2 = 1u << 5;
constexpr uint32_t kAvx512F = 1u << 16;
constexpr uint32_t kAvx512Dq = 1u << 17;
constexpr uint32_t kAvx512Bw = 1u << 30;
constexpr uint32_t kAvx512Vl = 1u << 31;
constexpr uint64_t kYmmState = 0x06;  // SSE and AVX
constexpr uint64_t kZmmState = 0xe6;  // and opmask, upper halves, upper registers

bool has_all(uint64_t value, uint64_t bits) { return (value & bits) == bits; }

uint64_t enabled_states() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

}  // namespace

bool cpu_offers(Isa isa) {
  if (isa == Isa::kGeneric) return true;
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t leaf1 = 0;
  uint32_t leaf7 = 0;
  uint32_t unused = 0;
  if (__get_cpuid(1, &eax, &ebx, &leaf1, &unused) == 0 || !has_all(leaf1, kOsXsave | kAvx | kFma | kF16c)) return false;
  if (__get_cpuid_count(7, 0, &eax, &leaf7, &ebx, &unused) == 0 || !has_all(leaf7, kAvx2)) return false;
  const uint64_t states = enabled_states();
  if (isa == Isa::kAvx2) return has_all(states, kYmmState);
  return has_all(states, kZmmState) && has_all(leaf7, kAvx512F | kAvx512Dq | kAvx512Bw | kAvx512Vl);
}

#else

bool cpu_offers(Isa isa) { return isa == Isa::kGeneric; }

#endif

}  // namespace quire::ops::cpu
