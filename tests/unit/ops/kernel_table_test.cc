#include "ops/cpu/kernel_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/check.h"

namespace quire::ops::cpu {
namespace {

// The choice is made once in a process: each case runs in a process of its own.
void print_choice(const char* wanted) {
  setenv("QUIRE_CPU_ISA", wanted, 1);
  try {
    fprintf(stderr, "chosen: %s\n", kernels().name);
  } catch (const StartupError& error) {
    fprintf(stderr, "refused: %s\n", error.what());
  }
  _exit(0);
}

TEST(KernelTableTest, GenericIsAlwaysThere) {
  ASSERT_NE(kernels_for(Isa::kGeneric), nullptr);
  EXPECT_NE(kernels_for(Isa::kGeneric)->linear, nullptr);
  EXPECT_NE(kernels_for(Isa::kGeneric)->attention, nullptr);
  EXPECT_NE(kernels_for(Isa::kGeneric)->rows, nullptr);
}

TEST(KernelTableTest, AWiderIsaImpliesTheNarrower) {
  EXPECT_TRUE(kernels_for(Isa::kAvx512) == nullptr || kernels_for(Isa::kAvx2) != nullptr);
}

// The choice is made once per process: each of these starts the program anew ("threadsafe").
TEST(KernelTableDeathTest, EnvironmentNamesTheIsa) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(print_choice("generic"), testing::ExitedWithCode(0), "chosen: generic");
  EXPECT_EXIT(print_choice(""), testing::ExitedWithCode(0), "chosen: ");
}

TEST(KernelTableDeathTest, AnUnknownOrMissingIsaIsRefusedInASentence) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(print_choice("sse9"), testing::ExitedWithCode(0),
              "refused: QUIRE_CPU_ISA=sse9 is unknown; use generic, avx2, avx512 or avx512_bf16");
  if (kernels_for(Isa::kAvx512) == nullptr) {
    EXPECT_EXIT(print_choice("avx512"), testing::ExitedWithCode(0),
                "refused: QUIRE_CPU_ISA=avx512: this CPU does not offer");
  }
}

TEST(KernelTableTest, OverrideEndsWithItsScope) {
  const KernelTable& chosen = kernels();
  {
    const KernelOverride generic(*kernels_for(Isa::kGeneric));
    EXPECT_EQ(kernels().isa, Isa::kGeneric);
  }
  EXPECT_EQ(&kernels(), &chosen);
}

}  // namespace
}  // namespace quire::ops::cpu
