#include "layers/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "layers/layer_fixture.h"
#include "ops/norm.h"

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
    norm.forward(rank.batch, x, out);
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

/// Says that every adapter has these vectors.
struct OwnVectors : NormLoraHook {
  NormVectors vectors_of(const LoraAdapter&) const override { return vectors; }
  NormVectors vectors;
};

TEST(LayerNorm, RowsOfAnAdapterAreNormalisedWithItsVectorsAndNoOthers) {
  constexpr int64_t kSize = 40, kRows = 6, kFirst = 2, kCount = 3;
  const Tensor x = random_rows(kRows, kSize, 5);
  MemorySource source;
  source.add_random("norm.weight", {kSize});
  source.add_random("norm.bias", {kSize});
  RankContext rank({0, 1});
  const LayerNorm norm(rank.layer, "norm", kSize, 1e-5, true);
  ASSERT_TRUE(rank.parameters.load(source, {}).ok());
  Tensor base = Tensor::empty(kRows, kSize, DType::kFloat32);
  norm.forward(rank.batch, x, base);

  const Tensor weight = random_rows(1, kSize, 8), bias = random_rows(1, kSize, 9);
  OwnVectors hook;
  ASSERT_EQ(rank.adaptable.layers().size(), 1u);
  *rank.adaptable.layers()[0].norm_hook = &hook;
  const auto* const adapter = reinterpret_cast<const LoraAdapter*>(&hook);  // looked up, never looked into
  const AdapterSegment segment{kFirst, kCount, adapter};
  rank.batch.adapters = {&segment, 1};
  for (const auto& [own_weight, own_bias] : {std::pair(&weight, &bias), {&weight, nullptr}, {nullptr, &bias}}) {
    hook.vectors = {own_weight, own_bias};
    Tensor out = Tensor::empty(kRows, kSize, DType::kFloat32);
    norm.forward(rank.batch, x, out);
    // What a norm that has these vectors itself makes of all rows.
    Tensor own = Tensor::empty(kRows, kSize, DType::kFloat32);
    const AdaptableLayer& layer = rank.adaptable.layers()[0];
    ops::layer_norm(rank.op, x, own_weight != nullptr ? *own_weight : *layer.norm_weight,
                    own_bias != nullptr ? *own_bias : *layer.bias, 1e-5f, own);
    for (int64_t row = 0; row < kRows; ++row) {
      const bool adapted = row >= kFirst && row < kFirst + kCount;
      const Tensor& expected = adapted ? own : base;
      for (int64_t i = 0; i < kSize; ++i) EXPECT_EQ(out.row<float>(row)[i], expected.row<float>(row)[i]) << row;
    }
  }
}

}  // namespace
}  // namespace quire::testing
