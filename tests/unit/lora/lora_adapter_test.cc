// Fitting an adapter's modules to a model's layers, and what the layers then give, on one rank and on several.
#include "lora/lora_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "layers/layer_fixture.h"
#include "layers/linear.h"
#include "lora/lora_layer_hook.h"

namespace quire::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr StackedName kStacked[] = {{".q_proj", ".qkv_proj", "q"},
                                    {".k_proj", ".qkv_proj", "k"},
                                    {".v_proj", ".qkv_proj", "v"},
                                    {".gate_proj", ".gate_up_proj", "gate"},
                                    {".up_proj", ".gate_up_proj", "up"}};
constexpr int64_t kHidden = 24, kWide = 100;

/// One rank's gated block without its activation: gate_up, then down with a bias.
struct Block {
  explicit Block(ParallelRank place, const MemorySource& weights)
      : rank(place),
        gate_up(rank.layer, "mlp.gate_up_proj", kHidden, {{"gate", kWide}, {"up", kWide}}, false, 16),
        input(partition(kWide, place, 16)),
        down(rank.layer, "mlp.down_proj", kWide, input, kHidden, true) {
    LoadOptions options;
    options.stacked = kStacked;
    EXPECT_TRUE(rank.parameters.load(weights, options).ok());
    for (size_t i = 0; i < rank.adaptable.layers().size(); ++i) {
      hooks.push_back(std::make_unique<LoraLayerHook>(AdaptableLayer::Kind::kLinear, i, scratch));
      *rank.adaptable.layers()[i].hook = hooks.back().get();
    }
  }
  Result<std::shared_ptr<const LoraAdapter>> adapter(std::span<const AdapterModule> modules,
                                                     const WeightSource& tensors) {
    return LoraAdapter::create("test", modules, tensors, {rank.adaptable, kStacked, DType::kFloat32});
  }
  /// The block's output when rows [1, rows) are the adapter's.
  Tensor run(const LoraAdapter& adapter, const Tensor& x) {
    const AdapterSegment segment{1, x.rows() - 1, &adapter};
    rank.batch.adapters = {&segment, 1};
    Tensor wide = Tensor::empty(x.rows(), gate_up.out_features(), DType::kFloat32);
    gate_up.forward(rank.batch, x, wide);
    Tensor out = Tensor::empty(x.rows(), kHidden, DType::kFloat32);
    down.forward(rank.batch, wide.slice_cols(0, input.size()), out);
    rank.batch.adapters = {};
    return out;
  }

  RankContext rank;
  MergedColumnParallelLinear gate_up;
  Range input;
  RowParallelLinear down;
  LoraScratch scratch;
  std::vector<std::unique_ptr<LoraLayerHook>> hooks;
};

class LoraAdapterTest : public ::testing::Test {
 protected:
  LoraAdapterTest() {
    weights_.add_random("mlp.gate_proj.weight", {kWide, kHidden});
    weights_.add_random("mlp.up_proj.weight", {kWide, kHidden});
    weights_.add_random("mlp.down_proj.weight", {kHidden, kWide});
    weights_.add_random("mlp.down_proj.bias", {kHidden});
  }
  /// A module with A and B of those sizes. Tensors must all be added before modules are made.
  void add_tensors(const std::string& path, int64_t rank, int64_t in, int64_t out) {
    tensors_.add_random(path + ".lora_A.weight", {rank, in});
    tensors_.add_random(path + ".lora_B.weight", {out, rank});
  }
  AdapterModule module(const std::string& path) const {
    AdapterModule module;
    module.path = path;
    module.a = tensors_.find(path + ".lora_A.weight");
    module.b = tensors_.find(path + ".lora_B.weight");
    module.rank = module.a->shape[0];
    module.scale = 0.5f;
    return module;
  }
  std::string error_of(const std::vector<AdapterModule>& modules) {
    Block block({0, 1}, weights_);
    const auto adapter = block.adapter(modules, tensors_);
    return adapter.ok() ? "" : adapter.error().message;
  }

  MemorySource weights_, tensors_;
};

TEST_F(LoraAdapterTest, LORA_12_AnAdapterThatMatchesNothingIsRefusedNamingItsTensors) {
  add_tensors("model.decoder.blk.0.q_proj", 2, kHidden, kHidden);
  add_tensors("mlp.down_proj", 2, kWide, kHidden);
  EXPECT_THAT(error_of({module("model.decoder.blk.0.q_proj")}),
              AllOf(HasSubstr("test"), HasSubstr("all of the adapter's tensors"),
                    HasSubstr("model.decoder.blk.0.q_proj.lora_A.weight"),
                    HasSubstr("model.decoder.blk.0.q_proj.lora_B.weight")));
  EXPECT_THAT(error_of({module("mlp.down_proj"), module("model.decoder.blk.0.q_proj")}),
              HasSubstr("model.decoder.blk.0.q_proj.lora_A.weight"))
      << "nor is a part of it left out";
}

TEST_F(LoraAdapterTest, LORA_18_AnAdapterOfAnotherSizeIsRefusedWithBothShapes) {
  add_tensors("mlp.gate_proj", 2, 128, kWide);
  EXPECT_THAT(error_of({module("mlp.gate_proj")}),
              AllOf(HasSubstr("mlp.gate_proj.lora_A.weight"), HasSubstr("[2, 128]"), HasSubstr("[2, 24]")));
}

TEST_F(LoraAdapterTest, TwoModulesOfTheSameOutputsAreRefused) {
  add_tensors("mlp.gate_proj", 2, kHidden, kWide);
  add_tensors("mlp.gate_up_proj", 3, kHidden, 2 * kWide);
  EXPECT_THAT(error_of({module("mlp.gate_proj"), module("mlp.gate_up_proj")}),
              AllOf(HasSubstr("mlp.gate_proj"), HasSubstr("mlp.gate_up_proj"), HasSubstr("same outputs")));
}

TEST_F(LoraAdapterTest, LORA_07_ACopyOfTheBaseWeightMustBeTheBasesOwn) {
  tensors_.add_random("mlp.down_proj.base_layer.weight", {kHidden, kWide});
  add_tensors("mlp.gate_proj", 2, kHidden, kWide);
  AdapterModule copy;
  copy.path = "mlp.down_proj";
  copy.base_copy = tensors_.find("mlp.down_proj.base_layer.weight");
  EXPECT_THAT(error_of({module("mlp.gate_proj"), copy}), HasSubstr("mlp.down_proj.base_layer.weight"));
  std::vector<float> scratch;
  const auto view = weights_.read_rows(*weights_.find("mlp.down_proj.weight"), 0, kHidden, scratch);
  const auto* const values = static_cast<const float*>(view->data);
  tensors_.add("same", {kHidden, kWide}, std::vector<float>(values, values + kHidden * kWide));
  AdapterModule own = module("mlp.gate_proj");
  copy.base_copy = tensors_.find("same");
  EXPECT_EQ(error_of({own, copy}), "");
}

TEST_F(LoraAdapterTest, AFusedModuleGivesTheSameAsItsPiecesWithTheSameA) {
  tensors_.add_random("a", {3, kHidden});
  std::vector<float> both = tensors_.add_random("gate", {kWide, 3});
  const std::vector<float> up = tensors_.add_random("up", {kWide, 3});
  both.insert(both.end(), up.begin(), up.end());
  tensors_.add("both", {2 * kWide, 3}, both);
  const auto made = [&](const char* path, const char* b) {
    AdapterModule module;
    module.path = path;
    module.rank = 3;
    module.scale = 0.5f;
    module.a = tensors_.find("a");
    module.b = tensors_.find(b);
    return module;
  };
  const std::vector<AdapterModule> apart = {made("mlp.up_proj", "up"), made("mlp.gate_proj", "gate")};
  const std::vector<AdapterModule> fused = {made("mlp.gate_up_proj", "both")};
  const Tensor x = random_rows(5, kHidden, 4);
  Block block({0, 1}, weights_);
  const auto first = block.adapter(apart, tensors_);
  const auto second = block.adapter(fused, tensors_);
  ASSERT_TRUE(first.ok() && second.ok());
  const Tensor a = block.run(**first, x);
  const Tensor b = block.run(**second, x);
  for (int64_t i = 0; i < a.size(); ++i) EXPECT_EQ(a.data<float>()[i], b.data<float>()[i]);
}

TEST_F(LoraAdapterTest, RanksTogetherGiveWhatOneRankGives) {
  add_tensors("mlp.gate_proj", 3, kHidden, kWide);
  add_tensors("mlp.up_proj", 5, kHidden, kWide);
  add_tensors("mlp.down_proj", 17, kWide, kHidden);
  tensors_.add_random("bias", {kHidden});
  std::vector<AdapterModule> modules = {module("mlp.gate_proj"), module("mlp.up_proj"), module("mlp.down_proj")};
  modules[2].bias = tensors_.find("bias");
  const Tensor x = random_rows(4, kHidden, 2);
  const auto run = [&](ParallelRank place) {
    Block block(place, weights_);
    const auto adapter = block.adapter(modules, tensors_);
    EXPECT_TRUE(adapter.ok());
    return block.run(**adapter, x);
  };
  const Tensor expected = run({0, 1});
  for (int size = 2; size <= 5; ++size) {
    on_ranks(size, [&](RankContext& rank) {
      const Tensor sum = run(rank.layer.tensor_parallel);
      for (int64_t i = 0; i < sum.size(); ++i) {
        const float value = expected.data<float>()[i];
        EXPECT_NEAR(sum.data<float>()[i], value, 1e-5 * (100 + std::abs(value))) << size << " ranks";
      }
    });
  }
}

}  // namespace
}  // namespace quire::testing
