// Loops that are unrolled before the compiler decides what lives in registers.
#pragma once

#include "ops/cpu/kernels/vec.h"

namespace quire::ops::cpu::QUIRE_ISA {

/// body(0) ... body(kCount - 1), unrolled early enough for the compiler to keep arrays that `body` indexes in
/// registers.
template <int kCount, typename Body>
QUIRE_INLINE void repeat(const Body& body) {
  if constexpr (kCount > 0) {
    repeat<kCount - 1>(body);
    body(kCount - 1);
  }
}
#define QUIRE_BODY(index) [&](int index) __attribute__((always_inline))

}  // namespace quire::ops::cpu::QUIRE_ISA
