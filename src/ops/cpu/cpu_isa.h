// Which instructions this CPU and its operating system offer.
#pragma once

#include "ops/cpu/kernel_table.h"

namespace quire::ops::cpu {

/// True when every instruction that the kernels of `isa` are compiled with may be executed here: cpuid lists the sets,
/// and the operating system saves their registers (XGETBV).
bool cpu_offers(Isa isa);

}  // namespace quire::ops::cpu
