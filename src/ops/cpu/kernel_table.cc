#include "ops/cpu/kernel_table.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "base/check.h"
#include "ops/cpu/cpu_isa.h"

// Defined by each kernel file in the namespace of the ISA that it is compiled for.
#define QUIRE_DECLARE_KERNELS(isa)                 \
  namespace isa {                                  \
  extern const LinearKernels linear_kernels;       \
  extern const AttentionKernels attention_kernels; \
  extern const RowKernels row_kernels;             \
  extern const QuantizedKernels quantized_kernels; \
  }

namespace quire::ops::cpu {

QUIRE_DECLARE_KERNELS(generic)
#if defined(__x86_64__)
QUIRE_DECLARE_KERNELS(avx2)
#if !defined(QUIRE_NO_AVX512)
QUIRE_DECLARE_KERNELS(avx512)
namespace avx512_bf16 {
extern const LinearKernels linear_kernels;
extern const AttentionKernels attention_kernels;
}  // namespace avx512_bf16
namespace avx512_vnni {
extern const QuantizedKernels quantized_kernels;
}
#endif
#endif

namespace {

// The names state the arithmetic, since equal results are promised per name: a variant that computes otherwise (another
// dot product, another order) needs a table and a name of its own, chosen by CPU model and never by a measurement.
constexpr KernelTable kTables[] = {
    {Isa::kGeneric, "generic (x86-64, no fma)", &generic::linear_kernels, &generic::attention_kernels,
     &generic::row_kernels, &generic::quantized_kernels},
#if defined(__x86_64__)
    {Isa::kAvx2, "avx2+fma (x86-64-v3)", &avx2::linear_kernels, &avx2::attention_kernels, &avx2::row_kernels,
     &avx2::quantized_kernels},
#if !defined(QUIRE_NO_AVX512)
    {Isa::kAvx512, "avx512+fma (x86-64-v4)", &avx512::linear_kernels, &avx512::attention_kernels, &avx512::row_kernels,
     &avx512::quantized_kernels},
    {Isa::kAvx512Bf16, "avx512+bf16dot (x86-64-v4, avx512_bf16)", &avx512::linear_kernels, &avx512::attention_kernels,
     &avx512::row_kernels, &avx512::quantized_kernels, &avx512_bf16::linear_kernels, &avx512_bf16::attention_kernels},
#endif
#endif
};

/// Those tables; where the CPU has AVX512_VNNI, with the kernels that use it in place of AVX-512's own, which give the
/// same bits.
const auto& tables() {
  static const auto all = [] {
    auto tables = std::to_array(kTables);
#if defined(__x86_64__) && !defined(QUIRE_NO_AVX512)
    for (KernelTable& table : tables) {
      const bool plain = table.quantized == &avx512::quantized_kernels;
      if (plain && cpu_offers_vnni()) table.quantized = &avx512_vnni::quantized_kernels;
    }
#endif
    return tables;
  }();
  return all;
}

std::atomic<const KernelTable*> override_table{nullptr};

struct IsaName {
  std::string_view name;
  Isa isa;
};
constexpr IsaName kIsaNames[] = {
    {"generic", Isa::kGeneric}, {"avx2", Isa::kAvx2}, {"avx512", Isa::kAvx512}, {"avx512_bf16", Isa::kAvx512Bf16}};

const KernelTable& best_table() {
  if (bf16_dot_is_faster()) {
    if (const KernelTable* const table = kernels_for(Isa::kAvx512Bf16)) return *table;
  }
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
    if (const KernelTable* const table = kernels_for(isa)) return *table;
  }
  return tables().front();
}

const KernelTable& choose_table() {
  const char* const wanted = std::getenv("QUIRE_CPU_ISA");
  if (wanted == nullptr || *wanted == '\0') return best_table();
  for (const IsaName& entry : kIsaNames) {
    if (entry.name != wanted) continue;
    if (const KernelTable* const table = kernels_for(entry.isa)) return *table;
    throw StartupError(
        fmt::format("QUIRE_CPU_ISA={}: this CPU does not offer {} instructions; the best it can run is {}", wanted,
                    wanted, best_table().name));
  }
  throw StartupError(
      fmt::format("QUIRE_CPU_ISA={} is unknown; use generic, avx2, avx512 or avx512_bf16, or leave it unset", wanted));
}

}  // namespace

const KernelTable* kernels_for(Isa isa) {
  if (!cpu_offers(isa)) return nullptr;
  for (const KernelTable& table : tables()) {
    if (table.isa == isa) return &table;
  }
  return nullptr;
}

const KernelTable& kernels() {
  if (const KernelTable* const table = override_table.load(std::memory_order_relaxed)) return *table;
  static const KernelTable& table = choose_table();
  return table;
}

std::vector<const QuantizedKernels*> all_quantized_kernels() {
  std::vector<const QuantizedKernels*> all;
  for (const KernelTable& table : kTables) {
    if (table.isa != Isa::kAvx512Bf16 && cpu_offers(table.isa)) all.push_back(table.quantized);
  }
#if defined(__x86_64__) && !defined(QUIRE_NO_AVX512)
  if (cpu_offers_vnni()) all.push_back(&avx512_vnni::quantized_kernels);
#endif
  return all;
}

KernelOverride::KernelOverride(const KernelTable& table) : previous_(override_table.exchange(&table)) {}
KernelOverride::~KernelOverride() { override_table.store(previous_); }

}  // namespace quire::ops::cpu
