// adapter_config.json: every field is used, harmless or refused by name. Case ids are those of the LoRA case list.
#include "lora/adapter_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "adapter_builder.h"

namespace quire::test {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

const std::string kQuery = "model.layers.0.self_attn.q_proj";

AdapterConfig config_of(const AdapterBuilder& builder) {
  auto config = AdapterConfig::parse(builder.config_text(), "adapter_config.json");
  EXPECT_TRUE(config.ok()) << (config.ok() ? "" : config.error().message);
  return std::move(config).value();
}

std::string refusal_of(const AdapterBuilder& builder) {
  const auto config = AdapterConfig::parse(builder.config_text(), "adapter_config.json");
  return config.ok() ? "" : config.error().message;
}

ModuleScale scale_of(const AdapterConfig& config, const std::string& path) {
  MatchBudget budget;
  return config.scale_of(path, budget).value();
}

bool targeted(const AdapterBuilder& builder, const std::string& path) {
  MatchBudget budget;
  return !config_of(builder).why_not_targeted(path, budget).value().has_value();
}

TEST(AdapterConfig, LORA_01_ScalesByTheRankOrItsRoot) {
  AdapterBuilder builder;
  builder.field("r", 16).field("lora_alpha", 16);
  EXPECT_FLOAT_EQ(scale_of(config_of(builder), kQuery).scale, 1.0f);
  EXPECT_FLOAT_EQ(scale_of(config_of(builder.field("use_rslora", true)), kQuery).scale, 4.0f);
}

TEST(AdapterConfig, LORA_03_PatternsSetRankAndAlphaByModule) {
  AdapterBuilder builder;
  builder.field("r", 8).field("lora_alpha", 16);
  builder.field("alpha_pattern", {{"layers\\.0\\..*q_proj", 64}, {"v_proj", 32}});
  builder.field("rank_pattern", {{"^model.layers.1.self_attn.q_proj", 4}, {"self_attn.v_proj", 2}});
  const AdapterConfig config = config_of(builder);
  EXPECT_FLOAT_EQ(scale_of(config, kQuery).scale, 8.0f);
  EXPECT_FLOAT_EQ(scale_of(config, "model.layers.1.self_attn.q_proj").scale, 4.0f);
  EXPECT_EQ(scale_of(config, "model.layers.1.self_attn.q_proj").rank, 4);
  EXPECT_FLOAT_EQ(scale_of(config, "model.layers.7.self_attn.v_proj").scale, 16.0f);
  EXPECT_FLOAT_EQ(scale_of(config, "model.layers.7.self_attn.k_proj").scale, 2.0f);
  // The end of a component is not a match.
  EXPECT_EQ(scale_of(config, "model.layers.7.self_attn.xv_proj").rank, 8);
}

TEST(AdapterConfig, TheFirstMatchingPatternCountsInTheOrderOfTheFile) {
  AdapterBuilder builder;
  builder.field("r", 8).field("lora_alpha", 8);
  builder.field("rank_pattern", {{"q_proj", 2}, {"layers.0.self_attn.q_proj", 4}, {".*", 16}});
  EXPECT_EQ(scale_of(config_of(builder), kQuery).rank, 2);
  builder.field("rank_pattern", {{"layers.0.self_attn.q_proj", 4}, {"q_proj", 2}});
  EXPECT_EQ(scale_of(config_of(builder), kQuery).rank, 4);
}

TEST(AdapterConfig, ADotInAPlainKeyStandsForAnyCharacter) {
  AdapterBuilder builder;
  builder.field("rank_pattern", {{"layers.0.self.attn.q_proj", 4}});
  EXPECT_EQ(scale_of(config_of(builder), kQuery).rank, 4);
  EXPECT_EQ(scale_of(config_of(builder), "layers.0.self_attn.q_proj").rank, 4);
  EXPECT_EQ(scale_of(config_of(builder), "xlayers.0.self_attn.q_proj").rank, 2);
}

TEST(AdapterConfig, LORA_09_AllLinearLeavesTheChoiceToTheTensors) {
  for (const char* name : {"all-linear", "ALL-LINEAR"}) {
    AdapterBuilder builder;
    builder.field("target_modules", name);
    EXPECT_TRUE(targeted(builder, "model.layers.0.mlp.down_proj"));
  }
  AdapterBuilder absent;
  EXPECT_TRUE(targeted(absent.without("target_modules"), "model.layers.0.mlp.down_proj"));
}

TEST(AdapterConfig, LORA_11_TargetModulesMayHaveAParentsName) {
  AdapterBuilder builder;
  builder.field("target_modules", {"self_attn.q_proj", "mlp.gate_proj"});
  EXPECT_TRUE(targeted(builder, kQuery));
  EXPECT_TRUE(targeted(builder, "model.layers.1.mlp.gate_proj"));
  EXPECT_FALSE(targeted(builder, "model.layers.1.cross_attn.q_proj"));
  EXPECT_FALSE(targeted(builder, "model.layers.1.my_self_attn.q_proj"));
}

TEST(AdapterConfig, TargetModulesMayBeAPatternOfWholePaths) {
  AdapterBuilder builder;
  builder.field("target_modules", ".*layers\\.[01]\\..*(q|v)_proj");
  EXPECT_TRUE(targeted(builder, kQuery));
  EXPECT_FALSE(targeted(builder, "model.layers.2.self_attn.q_proj"));
  EXPECT_FALSE(targeted(builder.field("target_modules", "q_proj"), kQuery));
}

TEST(AdapterConfig, ExcludedAndSavedModulesAreNotTargeted) {
  AdapterBuilder builder;
  EXPECT_FALSE(targeted(builder.field("exclude_modules", {"layers.0.self_attn.q_proj"}), kQuery));
  EXPECT_TRUE(targeted(builder, "model.layers.1.self_attn.q_proj"));
  EXPECT_FALSE(targeted(builder.field("exclude_modules", ".*\\.0\\..*"), kQuery));
  EXPECT_TRUE(targeted(builder.field("exclude_modules", ordered_json::array()), kQuery));
  EXPECT_TRUE(targeted(builder.field("exclude_modules", ""), kQuery));
  EXPECT_FALSE(targeted(builder.field("modules_to_save", {"self_attn"}), kQuery));
}

TEST(AdapterConfig, LayersToTransformNarrowsTheTargets) {
  AdapterBuilder builder;
  builder.field("layers_to_transform", {1, 3});
  EXPECT_FALSE(targeted(builder, kQuery));
  EXPECT_TRUE(targeted(builder, "model.layers.3.self_attn.q_proj"));
  EXPECT_TRUE(targeted(builder.field("layers_to_transform", 0), kQuery));
  EXPECT_TRUE(targeted(builder.field("layers_pattern", "layers"), kQuery));
  EXPECT_FALSE(targeted(builder.field("layers_pattern", {"h", "blocks"}), kQuery));
  // The first number counts, not an expert's.
  builder.without("layers_pattern").field("layers_to_transform", {5});
  EXPECT_FALSE(targeted(builder, "model.layers.1.experts.5.q_proj"));
  EXPECT_TRUE(targeted(builder, "model.layers.5.experts.1.q_proj"));
  // A name in full is a target in any layer.
  EXPECT_TRUE(targeted(builder.field("target_modules", {kQuery}), kQuery));
  EXPECT_THAT(refusal_of(builder.field("target_modules", ".*")), HasSubstr("layers_to_transform"));
}

TEST(AdapterConfig, FieldsOfTrainingAreHarmless) {
  AdapterBuilder builder;
  builder.field("lora_dropout", 0.1).field("inference_mode", true).field("fan_in_fan_out", true);
  builder.field("auto_mapping", {{"base_model_class", "X"}, {"unsloth_fixed", true}}).field("peft_version", "0.99");
  builder.field("eva_config", {{"rho", 2.0}}).field("ensure_weight_tying", true).field("revision", "main");
  builder.field("velora_config", {{"num_groups", 64}}).field("qalora_group_size", 16).field("megatron_core", "x");
  builder.field("a_new_field", nullptr).field("another", false).field("third", ordered_json::object());
  for (const char* init : {"gaussian", "eva", "orthogonal", "mica"}) {
    EXPECT_EQ(refusal_of(builder.field("init_lora_weights", init)), "");
  }
  EXPECT_EQ(refusal_of(builder.field("init_lora_weights", false)), "");
}

TEST(AdapterConfig, FieldsThatChangeResultsAreRefusedByName) {
  const std::pair<const char*, ordered_json> cases[] = {
      {"alora_invocation_tokens", {5, 6}},
      {"arrow_config", {{"top_k", 3}}},
      {"kasa_config", {{"beta", 1.0}}},
      {"layer_replication", {{0, 2}, {1, 2}}},
      {"megatron_config", {{"x", 1}}},
      {"monteclora_config", {{"num_samples", 8}}},
      {"target_parameters", {"mlp.experts.gate_up_proj"}},
      {"use_bdlora", {{"nblocks", 2}}},
      {"use_qalora", true},
      {"use_something_new", true},
      {"init_lora_weights", "pissa"},
      {"init_lora_weights", "pissa_niter_16"},
      {"init_lora_weights", "olora"},
      {"init_lora_weights", "corda"},
      {"init_lora_weights", "loftq"},
      {"init_lora_weights", "lora_ga"},
      {"init_lora_weights", "unheard"},
      {"init_lora_weights", 3},
      {"peft_type", "IA3"},
      {"bias", "some"},
      {"r", 0},
      {"r", 2.5},
      {"r", "8"},
      {"r", nullptr},
      {"lora_alpha", "x"},
      {"lora_alpha", nullptr},
      {"use_dora", "yes"},
      {"target_modules", {1, 2}},
      {"target_modules", "(q_proj"},
      {"exclude_modules", {{"a", 1}}},
      {"layers_to_transform", {"a"}},
      {"layers_to_transform", {-1}},
      {"rank_pattern", {{"q_proj", 0}}},
      {"rank_pattern", {{"q_proj", 1.5}}},
      {"rank_pattern", {{"q(", 1}}},
      {"rank_pattern", {1}},
      {"alpha_pattern", {{"q_proj", "x"}}},
      {"modules_to_save", "lm_head"},
      {"trainable_token_indices", {5, 5}},
      {"trainable_token_indices", {-1}},
      {"trainable_token_indices", {{"embed_tokens", 5}}},
      {"trainable_token_indices", "5"},
  };
  for (const auto& [key, value] : cases) {
    AdapterBuilder builder;
    EXPECT_THAT(refusal_of(builder.field(key, value)), HasSubstr(key)) << value;
  }
  AdapterBuilder both;
  EXPECT_THAT(refusal_of(both.field("use_dora", true).field("lora_bias", true)), HasSubstr("lora_bias"));
  AdapterBuilder untyped;
  EXPECT_THAT(refusal_of(untyped.without("peft_type")), HasSubstr("peft_type"));
}

TEST(AdapterConfig, DefaultsArePeftsOwn) {
  AdapterBuilder builder;
  const AdapterConfig config = config_of(builder.without("r").without("lora_alpha"));
  EXPECT_EQ(scale_of(config, kQuery).rank, 8);
  EXPECT_FLOAT_EQ(scale_of(config, kQuery).scale, 1.0f);
}

TEST(AdapterConfig, NegativeAndFractionalAlphaAreTaken) {
  AdapterBuilder builder;
  EXPECT_FLOAT_EQ(scale_of(config_of(builder.field("lora_alpha", -3)), kQuery).scale, -1.5f);
  EXPECT_FLOAT_EQ(scale_of(config_of(builder.field("lora_alpha", 0.5)), kQuery).scale, 0.25f);
}

TEST(AdapterConfig, BrokenTextIsRefusedWithTheFilesName) {
  for (const char* text : {"", "[]", "{", "{\"r\":1,\"r\":2}", "null"}) {
    const auto config = AdapterConfig::parse(text, "adapter_config.json");
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_THAT(config.error().message, HasSubstr("adapter_config.json"));
  }
}

}  // namespace
}  // namespace quire::test
