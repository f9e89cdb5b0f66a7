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
constexpr uint32_t kAvx512Vnni = 1u << 11;  // leaf 7, ECX
constexpr uint32_t kAvx512Bf16 = 1u << 5;   // leaf 7, subleaf 1, EAX
constexpr uint64_t kYmmState = 0x06;        // SSE and AVX
constexpr uint64_t kZmmState = 0xe6;        // and opmask, upper halves, upper registers

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
  if (!has_all(states, kZmmState) || !has_all(leaf7, kAvx512F | kAvx512Dq | kAvx512Bw | kAvx512Vl)) return false;
  if (isa == Isa::kAvx512) return true;
  uint32_t subleaf = 0;
  return __get_cpuid_count(7, 1, &subleaf, &ebx, &unused, &eax) != 0 && has_all(subleaf, kAvx512Bf16);
}

bool cpu_offers_vnni() {
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  return cpu_offers(Isa::kAvx512) && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && has_all(ecx, kAvx512Vnni);
}

bool bf16_dot_is_faster() {
  // Models that were measured (`quire bench machine`) or whose tables give one zmm vdpbf16ps for each zmm multiply-add:
  // AMD family 19h from model 10h on (Zen 4) and family 1Ah (Zen 5). On Intel's server cores from Cooper Lake to
  // Emerald Rapids it does half of a multiply-add's work.
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return false;
  const bool amd = ebx == 0x68747541 && edx == 0x69746e65 && ecx == 0x444d4163;  // "AuthenticAMD"
  if (!amd || __get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  const uint32_t family = ((eax >> 8) & 0xf) + ((eax >> 20) & 0xff);
  const uint32_t model = ((eax >> 4) & 0xf) | ((eax >> 12) & 0xf0);
  return family == 0x1a || (family == 0x19 && model >= 0x10 && !(model >= 0x20 && model < 0x60));
}

#else

bool cpu_offers(Isa isa) { return isa == Isa::kGeneric; }

bool cpu_offers_vnni() { return false; }

bool bf16_dot_is_faster() { return false; }

#endif

}  // namespace quire::ops::cpu
