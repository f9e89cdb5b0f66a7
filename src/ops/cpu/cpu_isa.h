// Which instructions this CPU and its operating system offer.
#pragma once

#include "ops/cpu/kernel_table.h"

namespace quire::ops::cpu {

/// True when every instruction that the kernels of `isa` are compiled with may be executed here: cpuid lists the sets,
/// and the operating system saves their registers (XGETBV).
bool cpu_offers(Isa isa);

/// True when dot products of bytes (AVX512_VNNI) may be executed beside what Isa::kAvx512 asks for.
bool cpu_offers_vnni();

/// True for CPU models on which vdpbf16ps multiplies twice as much in a cycle as a float32 multiply-add of the same
/// width. On others it is slower than widening the weights, which is also the more exact.
bool bf16_dot_is_faster();

}  // namespace quire::ops::cpu
