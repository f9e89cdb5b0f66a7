// The parallel linears on every rank of groups of any size, against one rank that holds all.
#include "layers/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

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

TEST(MergedColumnThenRowParallelLinear, EveryRankGetsTheSumThatOneRankComputes) {
  constexpr int64_t kHidden = 24, kWide = 100;
  MemorySource source;
  source.add_random("mlp.gate_proj.weight", {kWide, kHidden});
  source.add_random("mlp.up_proj.weight", {kWide, kHidden});
  source.add_random("mlp.down_proj.weight", {kHidden, kWide});
  source.add_random("mlp.down_proj.bias", {kHidden});
  const Tensor x = random_rows(4, kHidden, 2);
  const auto run_block = [&](RankContext& rank) {
    const ParallelRank place = rank.layer.tensor_parallel;
    const MergedColumnParallelLinear gate_up(rank.layer, "mlp.gate_up_proj", kHidden, {{"gate", kWide}, {"up", kWide}},
                                             false, 16);
    const Range input = partition(kWide, place, 16);
    const RowParallelLinear down(rank.layer, "mlp.down_proj", kWide, input, kHidden, true);
    EXPECT_TRUE(rank.parameters.load(source, stacked()).ok());
    EXPECT_EQ(gate_up.out_features(), 2 * input.size());
    const Tensor wide = run(rank, gate_up, x);
    const std::vector<float> out = values_of(run(rank, down, wide.slice_cols(0, input.size())));
    EXPECT_EQ(values_of(run(rank, down, wide.slice_cols(0, input.size()))), out) << "not repeatable";
    return out;
  };
  RankContext whole({0, 1});
  const std::vector<float> expected = run_block(whole);
  for (int size = 2; size <= 5; ++size) {
    std::vector<std::vector<float>> results(static_cast<size_t>(size));
    on_ranks(size, [&](RankContext& rank) {
      results[static_cast<size_t>(rank.layer.tensor_parallel.rank)] = run_block(rank);
    });
    for (const std::vector<float>& result : results) EXPECT_EQ(result, results[0]) << size << " ranks";
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(results[0][i], expected[i], 2e-4) << size << " ranks";
  }
}

TEST(RowParallelLinear, CutsAWholeInputAndLeavesTheSumToTheCallerWhereAsked) {
  constexpr int64_t kIn = 37, kOut = 20;
  MemorySource source;
  source.add_random("o.weight", {kOut, kIn});
  source.add_random("o.bias", {kOut});
  const Tensor x = random_rows(3, kIn, 4);
  const auto run_linear = [&](RankContext& rank, RowParallelOptions options) {
    const RowParallelLinear linear(rank.layer, "o", kIn, partition(kIn, rank.layer.tensor_parallel), kOut, true,
                                   options);
    EXPECT_TRUE(rank.parameters.load(source, {}).ok());
    return values_of(run(rank, linear, x));
  };
  RankContext whole({0, 1});
  const std::vector<float> expected = run_linear(whole, {});
  for (const bool reduce : {true, false}) {
    std::vector<std::vector<float>> results(3);
    on_ranks(3, [&](RankContext& rank) {
      results[static_cast<size_t>(rank.layer.tensor_parallel.rank)] =
          run_linear(rank, {.input_is_parallel = false, .reduce_results = reduce});
    });
    for (size_t i = 0; i < expected.size(); ++i) {
      const float sum = reduce ? results[1][i] : results[0][i] + results[1][i] + results[2][i];
      EXPECT_NEAR(sum, expected[i], 1e-5);
    }
  }
}

TEST(ColumnParallelLinear, GathersTheOutputOfEveryPieceInTheOrderOfTheCheckpoint) {
  constexpr int64_t kHidden = 12, kGate = 50, kUp = 23;
  MemorySource source;
  source.add_random("mlp.gate_proj.weight", {kGate, kHidden});
  source.add_random("mlp.up_proj.weight", {kUp, kHidden});
  source.add_random("mlp.single.weight", {kUp, kHidden});
  source.add_random("mlp.single.bias", {kUp});
  const Tensor x = random_rows(5, kHidden, 5);
  const auto run_linears = [&](RankContext& rank) {
    const MergedColumnParallelLinear merged(rank.layer, "mlp.gate_up_proj", kHidden, {{"gate", kGate}, {"up", kUp}},
                                            false, 16, true);
    const ColumnParallelLinear single(rank.layer, "mlp.single", kHidden, kUp, true, 1, true);
    EXPECT_TRUE(rank.parameters.load(source, stacked()).ok());
    Tensor out = Tensor::empty(5, kGate + kUp, DType::kFloat32), other = Tensor::empty(5, kUp, DType::kFloat32);
    merged.forward(rank.batch, x, out);
    single.forward(rank.batch, x, other);
    std::vector<float> all = values_of(out);
    std::ranges::copy(values_of(other), std::back_inserter(all));
    return all;
  };
  RankContext whole({0, 1});
  const std::vector<float> expected = run_linears(whole);
  for (int size = 2; size <= 4; ++size) {
    on_ranks(size, [&](RankContext& rank) { EXPECT_EQ(run_linears(rank), expected) << size << " ranks"; });
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
