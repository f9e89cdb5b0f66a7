#include "layers/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "layers/layer_fixture.h"

namespace quire::testing {
namespace {

TEST(LayerNorm, LoadsItsWeightAndTheBiasItWasAskedFor) {
  constexpr int64_t kSize = 40;
  const Tensor x = random_rows(3, kSize, 5);
  for (const bool with_bias : {true, false}) {
    MemorySource source;
    const std::vector<float> weight = source.add_random("norm.weight", {kSize});
    const std::vector<float> bias =
        with_bias ? source.add_random("norm.bias", {kSize}) : std::vector<float>(static_cast<size_t>(kSize));
    RankContext rank({0, 1});
    const LayerNorm norm(rank.layer, "norm", kSize, 1e-5, with_bias);
    ASSERT_TRUE(rank.parameters.load(source, {}).ok());
    Tensor out = Tensor::empty(3, kSize, DType::kFloat32);
    norm.forward(rank.op, x, out);
    for (int64_t row = 0; row < 3; ++row) {
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < kSize; ++i) mean += x.row<float>(row)[i] / double{kSize};
      for (int64_t i = 0; i < kSize; ++i) variance += std::pow(x.row<float>(row)[i] - mean, 2) / double{kSize};
      for (int64_t i = 0; i < kSize; ++i) {
        const auto at = static_cast<size_t>(i);
        const double normed = (x.row<float>(row)[i] - mean) / std::sqrt(variance + 1e-5);
        EXPECT_NEAR(out.row<float>(row)[i], normed * double{weight[at]} + double{bias[at]}, 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace quire::testing
