// Loops that run at the machine's limits: reading memory, multiplying. `quire bench machine` times them.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace quire::ops::cpu {

/// A loop over registers only: independent accumulators, no memory. nullptr where the ISA has no such instruction.
struct MultiplyLoop {
  void (*run)(int64_t iterations);
  double operations;  ///< multiplications and additions of one iteration
};

struct MachineKernels {
  /// Loads every byte of [data, data + bytes) once, in the widest registers; returns a value that depends on all of
  /// them. `data` is 64-byte aligned and `bytes` a multiple of 1,024.
  uint64_t (*read)(const void* data, size_t bytes);
  MultiplyLoop float32;   ///< fused multiply-add where the ISA has it, else multiply and add
  MultiplyLoop bf16_dot;  ///< vdpbf16ps; needs AVX512_BF16 of the CPU beside the ISA
  MultiplyLoop int8_dot;  ///< vpdpbusd; needs AVX512_VNNI (avx512) or AVX_VNNI (avx2) beside the ISA
};

}  // namespace quire::ops::cpu
