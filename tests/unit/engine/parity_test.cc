// The golden checkpoints against what transformers computed from them.
#include "parity.h"

#include <gtest/gtest.h>

namespace quire::testing {
namespace {

class GoldenModel : public ::testing::TestWithParam<const char*> {};

EngineConfig in_float32() {
  EngineConfig config;
  config.dtype = DType::kFloat32;
  return config;
}

/// Keys and values rounded to bfloat16 carry a relative error of 2^-9 each. Scores move by that times their size, and
/// with random weights of unit scale logits of size about 5 by a few hundredths over a handful of layers.
constexpr double kBfloat16CacheBound = 0.08;
/// Where the CPU's bfloat16 dot product multiplies, each linear's input carries such an error too.
constexpr double kBfloat16DotBound = 0.15;

TEST_P(GoldenModel, AgreesWithTransformersInFloat32) {
  expect_parity(golden_models() + "/" + GetParam(), in_float32());
}

/// The folder itself where its weights are bfloat16; else a copy with every weight rounded, so that both runs have the
/// same numbers.
TEST_P(GoldenModel, AgreesInBfloat16WithTheRoundedWeights) {
  const std::string folder = golden_models() + "/" + GetParam();
  const std::string rounded = rounded_copy(folder);
  ParityModel reference(rounded, in_float32());
  EngineConfig config;
  config.dtype = DType::kBFloat16;
  config.kv_cache_dtype = DType::kFloat32;
  ParityModel exact_cache(folder, config);
  config.kv_cache_dtype = DType::kBFloat16;
  ParityModel rounded_cache(folder, config);
  std::vector<int32_t> prompt{1};
  for (int32_t i = 1; i < 120; ++i) prompt.push_back(5 + (i * 53) % 490);
  const auto expected = reference.run(prompt, 1);
  const auto as_chosen = rounded_cache.run(prompt, 1);
  const WidenedWeights widened;
  const auto exact = exact_cache.run(prompt, 1);
  const auto bounded = rounded_cache.run(prompt, 1);
  for (size_t i = 0; i < expected.last.size(); ++i) {
    // Widening bfloat16 is exact: the same sums in the same order.
    EXPECT_EQ(exact.last[i], expected.last[i]);
    EXPECT_NEAR(bounded.last[i], expected.last[i], kBfloat16CacheBound);
    EXPECT_NEAR(as_chosen.last[i], expected.last[i], kBfloat16DotBound);
  }
  for (size_t i = 0; i < expected.prompt.size(); ++i) {
    EXPECT_NEAR(bounded.prompt[i][0].logprob, expected.prompt[i][0].logprob, kBfloat16CacheBound);
  }
}

TEST_P(GoldenModel, IsBitForBitTheSameInAnyChunks) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    EngineConfig config;
    config.dtype = dtype;
    ParityModel model(golden_models() + "/" + GetParam(), config);
    std::vector<int32_t> prompt{1};
    for (int32_t i = 1; i < 150; ++i) prompt.push_back(5 + (i * 37) % 490);
    const auto whole = model.run(prompt, 8);
    for (const int64_t chunk : {1, 7, 16, 64}) {
      const auto parts = model.run(prompt, 8, chunk);
      EXPECT_EQ(parts.last, whole.last) << "chunk " << chunk;
      EXPECT_EQ(parts.greedy, whole.greedy);
      ASSERT_EQ(parts.prompt.size(), whole.prompt.size());
      for (size_t i = 0; i < whole.prompt.size(); ++i) {
        EXPECT_EQ(parts.prompt[i][0].logprob, whole.prompt[i][0].logprob) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenModel,
                         ::testing::Values("llama", "llama-tied-bias", "llama3-rope", "llama-rope-linear",
                                           "llama-rope-yarn", "mistral-sliding", "qwen2", "qwen3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace quire::testing
