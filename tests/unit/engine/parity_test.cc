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

TEST_P(GoldenModel, AgreesWithTransformersInFloat32) {
  expect_parity(golden_models() + "/" + GetParam(), in_float32());
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
