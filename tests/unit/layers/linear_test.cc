// The parallel linears on every rank of groups of any size, against one rank that holds all.
#include "layers/linear.h"

#include <gtest/gtest.h>

#include "layers/layer_fixture.h"

namespace quire::testing {
namespace {

constexpr StackedName kStacked[] = {{".q_proj", ".qkv_proj", "q"},
                                    {".k_proj", ".qkv_proj", "k"},
                                    {".v_proj", ".qkv_proj", "v"},
                                    {".gate_proj", ".gate_up_proj", "gate"},
                                    {".up_proj", ".gate_up_proj", "up"}};

LoadOptions stacked() {
  LoadOptions options;
  options.stacked = kStacked;
  return options;
}

Tensor run(RankContext& rank, const LinearBase& linear, const Tensor& x) {
  Tensor out = Tensor::empty(x.rows(), linear.out_features(), DType::kFloat32);
  linear.forward(rank.batch, x, out);
  return out;
}

TEST(QKVParallelLinear, RanksHoldTheHeadsOfTheWholeForAnySize) {
  constexpr int64_t kHidden = 40, kHeadDim = 12, kHeads = 9, kKvHeads = 3;
  MemorySource source;
  for (const auto& [name, heads] : {std::pair{"q", kHeads}, {"k", kKvHeads}, {"v", kKvHeads}}) {
    source.add_random(std::string("attn.") + name + "_proj.weight", {heads * kHeadDim, kHidden});
    source.add_random(std::string("attn.") + name + "_proj.bias", {heads * kHeadDim});
  }
  const Tensor x = random_rows(5, kHidden, 1);
  const auto build = [&](RankContext& rank, const HeadPartition& heads) {
    auto linear = std::make_unique<QKVParallelLinear>(rank.layer, "attn.qkv_proj", kHidden, kHeadDim, heads, kHeads,
                                                      kKvHeads, true);
    const Status loaded = rank.parameters.load(source, stacked());
    EXPECT_TRUE(loaded.ok());
    return linear;
  };
  RankContext whole({0, 1});
  const auto all = build(whole, *partition_heads(kHeads, kKvHeads, {0, 1}));
  const Tensor expected = run(whole, *all, x);
  for (int size = 2; size <= 9; ++size) {
    for (int index = 0; index < size; ++index) {
      RankContext rank({index, size});
      const HeadPartition heads = *partition_heads(kHeads, kKvHeads, {index, size});
      const auto part = build(rank, heads);
      const Tensor out = run(rank, *part, x);
      int64_t column = 0;
      const auto same = [&](int64_t first, int64_t count) {
        for (int64_t c = 0; c < count; ++c, ++column) {
          for (int64_t r = 0; r < x.rows(); ++r) {
            ASSERT_EQ(out.row<float>(r)[column], expected.row<float>(r)[first + c]) << "rank " << index << "/" << size;
          }
        }
      };
      same(heads.query_heads.begin * kHeadDim, heads.query_heads.size() * kHeadDim);
      same((kHeads + heads.kv_heads.begin) * kHeadDim, heads.kv_heads.size() * kHeadDim);
      same((kHeads + kKvHeads + heads.kv_heads.begin) * kHeadDim, heads.kv_heads.size() * kHeadDim);
      EXPECT_EQ(column, part->out_features());
    }
  }
}

TEST(MergedColumnThenRowParallelLinear, PartialSumsOfTheRanksAddUpToTheWhole) {
  constexpr int64_t kHidden = 24, kWide = 100;
  MemorySource source;
  source.add_random("mlp.gate_proj.weight", {kWide, kHidden});
  source.add_random("mlp.up_proj.weight", {kWide, kHidden});
  source.add_random("mlp.down_proj.weight", {kHidden, kWide});
  source.add_random("mlp.down_proj.bias", {kHidden});
  const Tensor x = random_rows(4, kHidden, 2);
  const auto partial = [&](ParallelRank place) {
    RankContext rank(place);
    const MergedColumnParallelLinear gate_up(rank.layer, "mlp.gate_up_proj", kHidden, {{"gate", kWide}, {"up", kWide}},
                                             false, 16);
    const Range input = partition(kWide, place, 16);
    const RowParallelLinear down(rank.layer, "mlp.down_proj", kWide, input, kHidden, true);
    EXPECT_TRUE(rank.parameters.load(source, stacked()).ok());
    EXPECT_EQ(gate_up.out_features(), 2 * input.size());
    const Tensor wide = run(rank, gate_up, x);
    return run(rank, down, wide.slice_cols(0, input.size()));
  };
  const Tensor expected = partial({0, 1});
  for (int size = 2; size <= 5; ++size) {
    std::vector<double> sum(static_cast<size_t>(expected.size()));
    for (int index = 0; index < size; ++index) {
      const Tensor part = partial({index, size});
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(part.data<float>()[i]);
    }
    for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], expected.data<float>()[i], 2e-4) << size << " ranks";
  }
}

TEST(ColumnParallelLinear, AFusedCheckpointTensorGivesTheSameAsItsPieces) {
  constexpr int64_t kHidden = 8, kWide = 20;
  MemorySource apart;
  std::vector<float> both = apart.add_random("mlp.gate_proj.weight", {kWide, kHidden});
  const std::vector<float>& up = apart.add_random("mlp.up_proj.weight", {kWide, kHidden});
  both.insert(both.end(), up.begin(), up.end());
  MemorySource fused;
  fused.add("mlp.gate_up_proj.weight", {2 * kWide, kHidden}, both);
  const Tensor x = random_rows(3, kHidden, 3);
  for (const ParallelRank place : {ParallelRank{0, 1}, {0, 2}, {1, 2}}) {
    std::vector<std::vector<float>> results;
    for (const MemorySource* source : {&apart, &fused}) {
      RankContext rank(place);
      const MergedColumnParallelLinear linear(rank.layer, "mlp.gate_up_proj", kHidden, {{"gate", kWide}, {"up", kWide}},
                                              false, 16);
      ASSERT_TRUE(rank.parameters.load(*source, stacked()).ok());
      const Tensor out = run(rank, linear, x);
      results.emplace_back(out.data<float>(), out.data<float>() + out.size());
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

}  // namespace
}  // namespace quire::testing
