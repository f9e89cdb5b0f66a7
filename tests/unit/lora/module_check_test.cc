// Which kinds and shapes of an adapter's tensors fit a module of the base; one rule for a loaded model and for files.
#include "lora/module_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace quire {
namespace {

using Kind = AdaptableLayer::Kind;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kOut = 6, kIn = 4, kRank = 2;

class ModuleCheckTest : public ::testing::Test {
 protected:
  const WeightInfo* tensor(const std::string& name, std::vector<int64_t> shape) {
    return &tensors_.emplace_back(WeightInfo{name, std::move(shape), "F32", 0});
  }
  AdapterModule named(const std::string& path) {
    AdapterModule module;
    module.path = path;
    return module;
  }
  AdapterModule pair(const std::string& path, int64_t in, int64_t out, bool embedding = false) {
    AdapterModule module = named(path);
    module.rank = kRank;
    module.embedding = embedding;
    module.a = tensor(path + ".A", {kRank, in});
    module.b = tensor(path + ".B", {out, kRank});
    return module;
  }
  static std::string refusal(const AdapterModule& module, Kind kind, bool has_bias = false) {
    const BaseModule base{kind, kOut, kind == Kind::kNorm ? 1 : kIn, has_bias};
    const Status status = check_module("adapter", module, base);
    return status.ok() ? "" : status.error().message;
  }

  std::deque<WeightInfo> tensors_;
};

TEST_F(ModuleCheckTest, PairsAreOfTheKindOfTheirModule) {
  EXPECT_EQ(refusal(pair("up", kIn, kOut), Kind::kLinear), "");
  EXPECT_EQ(refusal(pair("embed_tokens", kOut, kIn, true), Kind::kEmbedding), "");
  EXPECT_THAT(refusal(pair("embed_tokens", kIn, kOut), Kind::kEmbedding), HasSubstr("those of a linear layer"));
  EXPECT_THAT(refusal(pair("up", kOut, kIn, true), Kind::kLinear), HasSubstr("those of an embedding"));
  EXPECT_THAT(refusal(pair("norm", 1, kOut), Kind::kNorm), HasSubstr("no matrix"));
}

TEST_F(ModuleCheckTest, LORA_18_AWrongSizeIsRefusedWithBothShapes) {
  EXPECT_THAT(refusal(pair("up", kIn + 1, kOut), Kind::kLinear),
              AllOf(HasSubstr("'up.A'"), HasSubstr("[2, 5]"), HasSubstr("[2, 4]"), HasSubstr("another base model")));
  AdapterModule dora = pair("up", kIn, kOut);
  dora.magnitude = tensor("up.magnitude", {kIn});
  EXPECT_THAT(refusal(dora, Kind::kLinear), AllOf(HasSubstr("'up.magnitude'"), HasSubstr("[4]"), HasSubstr("[6]")));
}

TEST_F(ModuleCheckTest, ABiasNeedsOneInTheBase) {
  AdapterModule module = named("up");
  module.bias = tensor("up.bias", {kOut});
  EXPECT_EQ(refusal(module, Kind::kLinear, true), "");
  EXPECT_THAT(refusal(module, Kind::kLinear, false), HasSubstr("the model has none there"));
  AdapterModule of_b = pair("up", kIn, kOut);
  of_b.lora_bias = tensor("up.B.bias", {kOut});
  EXPECT_EQ(refusal(of_b, Kind::kLinear, false), "") << "the bias of B is its own";
}

TEST_F(ModuleCheckTest, WholeWeightsAndNorms) {
  AdapterModule whole = named("embed_tokens");
  whole.weight = tensor("embed_tokens.weight", {kOut, kIn});
  EXPECT_EQ(refusal(whole, Kind::kEmbedding), "");
  whole.weight = tensor("resized", {kOut + 2, kIn});
  EXPECT_THAT(refusal(whole, Kind::kEmbedding), HasSubstr("resized in training"));
  whole.path = "up";
  EXPECT_THAT(refusal(whole, Kind::kLinear), HasSubstr("asks for [6, 4]"));
  AdapterModule norm = named("norm");
  norm.weight = tensor("norm.weight", {kOut});
  EXPECT_EQ(refusal(norm, Kind::kNorm), "");
  norm.bias = tensor("norm.bias", {kOut});
  EXPECT_EQ(refusal(norm, Kind::kNorm, true), "");
  EXPECT_THAT(refusal(norm, Kind::kNorm, false), HasSubstr("norm.bias"));
  norm.weight = tensor("matrix", {kOut, 1});
  EXPECT_THAT(refusal(norm, Kind::kNorm, true), HasSubstr("asks for [6]"));
}

TEST_F(ModuleCheckTest, RowsOfTokensAreOfTheEmbeddingOrTheHead) {
  AdapterModule tokens = named("lm_head");
  tokens.token_rows = tensor("rows", {2, kIn});
  tokens.token_ids = {0, kOut - 1};
  EXPECT_EQ(refusal(tokens, Kind::kLinear), "");
  EXPECT_EQ(refusal(tokens, Kind::kEmbedding), "");
  tokens.token_ids = {0, kOut};
  EXPECT_THAT(refusal(tokens, Kind::kEmbedding), HasSubstr("token id 6"));
  tokens.token_ids = {0, 1};
  tokens.path = "up";
  EXPECT_THAT(refusal(tokens, Kind::kLinear), HasSubstr("neither the embedding nor the head"));
}

}  // namespace
}  // namespace quire
