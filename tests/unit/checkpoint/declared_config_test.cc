// config.json of an architecture that code outside quire declares.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/architecture_config.h"
#include "checkpoint/model_config_json.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

/// Declares "OwnForCausalLM" anew for each test.
class DeclaredConfig : public ::testing::Test {
 protected:
  DeclaredConfig() {
    declared_.model_type = "own";
    declared_.renamed = {{"n_embd", "hidden_size"}};
    declared_.defaults = {{"max_position_embeddings", "128"}};
    declared_.own_fields = {"clip", "taps", "note"};
    declared_.fixed_fields = {{"mode", {"\"plain\"", "\"simple\""}}};
    declared_.ignored_fields = {"dropout_style"};
  }

  Result<JudgedConfig> judge(const std::string& more) {
    ArchitectureConfigs::instance().declare("OwnForCausalLM", declared_);
    return judge_model_config(
        R"({"architectures": ["OwnForCausalLM"], "vocab_size": 10, "num_hidden_layers": 1, "num_attention_heads": 2)" +
            more + "}",
        "", "here");
  }
  std::string refusal(const std::string& more) {
    const auto judged = judge(more);
    return judged.ok() ? "" : judged.error().message;
  }

  ArchitectureConfig declared_;
};

TEST_F(DeclaredConfig, GivesTheModelItsOwnFieldsUnderCommonNamesAndDefaults) {
  const auto judged =
      judge(R"(, "n_embd": 32, "clip": 8, "taps": [1, 2], "note": null, "mode": "simple", "dropout_style": "x")");
  ASSERT_TRUE(judged.ok()) << judged.error().message;
  const ModelConfig& config = judged->config;
  EXPECT_EQ(config.model_type, "own");
  EXPECT_EQ(config.hidden_size, 32);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.max_position_embeddings, 128);
  EXPECT_EQ(*config.own_fields.number("clip", 0, 0, 10), 8.0);
  EXPECT_EQ(*config.own_fields.integers("taps", 0, 5), (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(config.own_fields.has("note"));
  EXPECT_EQ(*config.own_fields.text("note", "none"), "none");
  EXPECT_EQ(config.own_fields.json("taps"), "[1,2]");
  EXPECT_THAT(config.own_fields.boolean("clip", false).error().message, HasSubstr("clip must be true or false"));
  EXPECT_THAT(config.own_fields.integers("taps", 0, 1).error().message, HasSubstr("taps must be a list of integers"));
}

TEST_F(DeclaredConfig, RefusesWhatNobodyDeclared) {
  EXPECT_THAT(refusal(R"(, "n_embd": 32, "surprise": 1)"), HasSubstr("'surprise'"));
  EXPECT_THAT(refusal(R"(, "n_embd": 32, "mode": "fancy")"), HasSubstr("mode must be \"plain\" or \"simple\""));
  EXPECT_THAT(refusal(R"(, "n_embd": 32, "attention_bias": true)"), HasSubstr("attention_bias"));
  EXPECT_THAT(refusal(R"(, "n_embd": 32, "sliding_window": 16)"), HasSubstr("sliding attention"));
  EXPECT_THAT(refusal(R"(, "n_embd": 32, "partial_rotary_factor": 0.5)"), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(refusal(R"(, "n_embd": 32, "hidden_size": 32)"), HasSubstr("the same field"));
  EXPECT_THAT(refusal(""), HasSubstr("hidden_size is missing"));
  EXPECT_THAT(refusal(R"(, "n_embd": 32, "model_type": "llama")"), HasSubstr("contradicts"));
}

TEST_F(DeclaredConfig, TakesTheOptionalPartsThatAreDeclared) {
  declared_.attention_bias = true;
  declared_.partial_rotary_factor = true;
  declared_.window = WindowRule::kAllLayers;
  const std::string fields = R"(, "n_embd": 32, "attention_bias": true, "sliding_window": 16)";
  const auto judged = judge(fields + R"(, "partial_rotary_factor": 0.5)");
  ASSERT_TRUE(judged.ok()) << judged.error().message;
  EXPECT_TRUE(judged->config.attention_bias);
  EXPECT_EQ(judged->config.sliding_window, 16);
  EXPECT_EQ(judged->config.rope.partial_rotary_factor, 0.5);
  EXPECT_THAT(refusal(fields + R"(, "partial_rotary_factor": 0.07)"), HasSubstr("must be even"));
}

}  // namespace
}  // namespace quire
