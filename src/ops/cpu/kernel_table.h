// The kernels of the instruction set that this process uses, resolved once.
//
// Each kernel file (kernels/x.cc) fills one struct of function pointers per ISA; this table holds the chosen ones.
// Inputs are raw pointers: shapes and types were checked by the op that calls.
#pragma once

#include <vector>

namespace quire::ops::cpu {

struct LinearKernels;     // kernels/linear.h
struct AttentionKernels;  // kernels/attention.h
struct RowKernels;        // kernels/rows.h: norms, activations, rotary, logits
struct QuantizedKernels;  // kernels/quantized.h

enum class Isa { kGeneric, kAvx2, kAvx512, kAvx512Bf16 };

struct KernelTable {
  Isa isa;
  const char* name;  ///< printed at start; part of what "the same build" means for equal results
  const LinearKernels* linear;
  const AttentionKernels* attention;
  const RowKernels* rows;
  const QuantizedKernels* quantized;  ///< with AVX512_VNNI where the CPU has that
  /// Multiplies bfloat16 weights with rows rounded to bfloat16; nullptr where they are widened instead.
  const LinearKernels* bf16_pairs = nullptr;
  /// Attends to a bfloat16 cache with queries and probabilities rounded to bfloat16; nullptr as above.
  const AttentionKernels* bf16_pair_attention = nullptr;
};

/// The table in use: the best for this CPU model, or what QUIRE_CPU_ISA (generic, avx2, avx512, avx512_bf16) names.
/// Throws StartupError when that name is unknown or the CPU lacks it.
const KernelTable& kernels();

/// The table of one ISA, or nullptr when this CPU cannot run it; for tests.
const KernelTable* kernels_for(Isa isa);

/// The kernels for compressed weights of every instruction set that this CPU can run, generic first; for tests.
std::vector<const QuantizedKernels*> all_quantized_kernels();

/// While it lives, kernels() is another table: so tests run whole ops with every ISA. Not for use while ops run.
class KernelOverride {
 public:
  explicit KernelOverride(const KernelTable& table);
  ~KernelOverride();
  KernelOverride(const KernelOverride&) = delete;
  KernelOverride& operator=(const KernelOverride&) = delete;

 private:
  const KernelTable* previous_;
};

}  // namespace quire::ops::cpu
