// The measuring loops of the ISA in use, without what this CPU cannot run.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/kernels/machine.h"

namespace quire::ops::cpu {

/// The loops of kernels().isa; bf16_dot.run and int8_dot.run are nullptr where cpuid does not list the instruction.
MachineKernels machine_kernels();

/// The loops of one ISA, which this CPU must offer (QUIRE_CHECK).
MachineKernels machine_kernels_for(Isa isa);

}  // namespace quire::ops::cpu
