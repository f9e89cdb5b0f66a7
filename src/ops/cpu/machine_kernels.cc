#include "ops/cpu/machine_kernels.h"

#include "base/check.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace quire::ops::cpu {

namespace generic {
extern const MachineKernels machine_kernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const MachineKernels machine_kernels;
}
#if !defined(QUIRE_NO_AVX512)
namespace avx512 {
extern const MachineKernels machine_kernels;
}
#else
namespace avx512 = avx2;
#endif

namespace {

struct DotInstructions {
  bool avx512_vnni = false, avx_vnni = false, avx512_bf16 = false;
};

// Intel SDM volume 2, CPUID: leaf 7 subleaf 0 ECX bit 11; subleaf 1 EAX bits 4 and 5.
DotInstructions dot_instructions() {
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return {};
  const uint32_t subleaves = eax;
  DotInstructions found;
  found.avx512_vnni = (ecx >> 11 & 1u) != 0;
  if (subleaves >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) {
    found.avx_vnni = (eax >> 4 & 1u) != 0;
    found.avx512_bf16 = (eax >> 5 & 1u) != 0;
  }
  return found;
}

}  // namespace
#endif

MachineKernels machine_kernels_for(Isa isa) {
  QUIRE_CHECK(kernels_for(isa) != nullptr);
#if defined(__x86_64__)
  if (isa != Isa::kGeneric) {
    const DotInstructions offered = dot_instructions();
    const bool wide = isa == Isa::kAvx512 || isa == Isa::kAvx512Bf16;
    MachineKernels chosen = wide ? avx512::machine_kernels : avx2::machine_kernels;
    const bool int8 = wide ? offered.avx512_vnni : offered.avx_vnni;
    if (!int8) chosen.int8_dot = {nullptr, 0};
    if (!offered.avx512_bf16) chosen.bf16_dot = {nullptr, 0};
    return chosen;
  }
#endif
  return generic::machine_kernels;
}

MachineKernels machine_kernels() { return machine_kernels_for(kernels().isa); }

}  // namespace quire::ops::cpu
