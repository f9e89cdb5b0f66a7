// What a GGUF file's metadata makes of the model: used, refused by name, or warned of.
#include "checkpoint/gguf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "checkpoint/gguf_builder.h"

namespace quire {
namespace {

using test::GgufBuilder;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kHeadDim = 16;

/// The metadata that a file must have, with hidden 32, 4 heads of which 2 for keys, and a vocabulary of 5.
GgufBuilder minimal(const std::string& architecture) {
  const std::string prefix = architecture + ".";
  GgufBuilder builder;
  builder.text("general.architecture", architecture)
      .integer(prefix + "context_length", 4096)
      .integer(prefix + "embedding_length", 32)
      .integer(prefix + "feed_forward_length", 48)
      .integer(prefix + "block_count", 2)
      .integer(prefix + "attention.head_count", 4)
      .integer(prefix + "attention.head_count_kv", 2)
      .integer(prefix + "attention.key_length", kHeadDim)
      .number(prefix + "attention.layer_norm_rms_epsilon", 1e-5f)
      .floats("token_embd.weight", {5, 32}, std::vector<float>(5 * 32, 0.5f));
  return builder;
}

Result<JudgedConfig> judge(const GgufBuilder& builder) {
  const std::string bytes = builder.build();
  auto file = GgufFile::parse(test::bytes_of(bytes), "test.gguf");
  if (!file.ok()) return file.error();
  return gguf_model_config(*file);
}

std::string error_of(const GgufBuilder& builder) {
  const auto judged = judge(builder);
  return judged.ok() ? "no error" : judged.error().message;
}

TEST(GgufConfig, ArchitecturesBecomeTheirFamilies) {
  for (const auto& [architecture, name] :
       {std::pair("llama", "LlamaForCausalLM"), std::pair("qwen2", "Qwen2ForCausalLM"),
        std::pair("qwen3", "Qwen3ForCausalLM")}) {
    const auto judged = judge(minimal(architecture));
    ASSERT_TRUE(judged.ok()) << judged.error().message;
    const ModelConfig& config = judged->config;
    EXPECT_EQ(config.architecture, name);
    EXPECT_EQ(config.vocab_size, 5);
    EXPECT_EQ(config.hidden_size, 32);
    EXPECT_EQ(config.intermediate_size, 48);
    EXPECT_EQ(config.num_hidden_layers, 2);
    EXPECT_EQ(config.num_attention_heads, 4);
    EXPECT_EQ(config.num_key_value_heads, 2);
    EXPECT_EQ(config.head_dim, kHeadDim);
    EXPECT_EQ(config.max_position_embeddings, 4096);
    EXPECT_FLOAT_EQ(static_cast<float>(config.rms_norm_eps), 1e-5f);
    EXPECT_EQ(config.rope.theta, 10000.0);
    EXPECT_TRUE(config.tie_word_embeddings) << "no output.weight";
    EXPECT_EQ(config.dtype, DType::kFloat32);
    EXPECT_THAT(config.layer_types, Each(LayerType::kFullAttention));
    EXPECT_THAT(judged->warnings, IsEmpty());
  }
  for (const char* unknown : {"gemma3", "mistral", "deepseek2", ""}) {
    EXPECT_THAT(error_of(minimal(unknown)), HasSubstr("llama, qwen2 and qwen3")) << unknown;
  }
}

TEST(GgufConfig, BiasesHeadAndTokensComeFromTheFile) {
  GgufBuilder builder = minimal("llama");
  builder.floats("output.weight", {5, 32}, std::vector<float>(5 * 32))
      .floats("blk.0.attn_q.bias", {64}, std::vector<float>(64))
      .floats("blk.0.ffn_gate.bias", {48}, std::vector<float>(48))
      .integer("tokenizer.ggml.bos_token_id", 1)
      .integer("tokenizer.ggml.eos_token_id", 2)
      .integer("tokenizer.ggml.eot_token_id", 4)
      .integer("llama.attention.sliding_window", 64);
  const auto judged = judge(builder);
  ASSERT_TRUE(judged.ok()) << judged.error().message;
  EXPECT_FALSE(judged->config.tie_word_embeddings);
  EXPECT_TRUE(judged->config.attention_bias);
  EXPECT_TRUE(judged->config.mlp_bias);
  EXPECT_EQ(judged->config.bos_token_id, 1);
  EXPECT_THAT(judged->config.eos_token_ids, ElementsAre(2, 4));
  EXPECT_EQ(judged->config.sliding_window, 64);
  EXPECT_THAT(judged->config.layer_types, Each(LayerType::kSlidingAttention));
}

TEST(GgufConfig, AnEosTokenBeyondTheVocabularyIsRefused) {
  GgufBuilder builder = minimal("llama");
  builder.integer("tokenizer.ggml.eos_token_id", 5);
  EXPECT_THAT(error_of(builder), HasSubstr("tokenizer.ggml.eos_token_id 5 is beyond the vocabulary of 5 tokens"));
}

TEST(GgufConfig, MissingKeysAreNamed) {
  EXPECT_THAT(error_of(GgufBuilder().text("general.architecture", "llama")), HasSubstr("llama.context_length"));
  EXPECT_THAT(error_of(GgufBuilder()), HasSubstr("general.architecture"));
  EXPECT_THAT(error_of(minimal("llama").integer("llama.rope.dimension_count", 8)), HasSubstr("rope.dimension_count"));
  EXPECT_THAT(error_of(minimal("llama").integer("llama.attention.value_length", 8)), HasSubstr("value_length"));
  EXPECT_THAT(error_of(minimal("llama").integer("split.count", 3)), HasSubstr("3 parts"));
}

TEST(GgufConfig, RopeScalings) {
  const auto linear =
      judge(minimal("llama").text("llama.rope.scaling.type", "linear").number("llama.rope.scaling.factor", 4.0f));
  ASSERT_TRUE(linear.ok()) << linear.error().message;
  EXPECT_EQ(linear->config.rope.type, RopeType::kLinear);
  EXPECT_EQ(linear->config.rope.factor, 4.0);
  const auto old = judge(minimal("llama").number("llama.rope.scale_linear", 2.0f));
  EXPECT_EQ(old->config.rope.type, RopeType::kLinear);
  EXPECT_EQ(old->config.rope.factor, 2.0);
  const auto yarn = judge(minimal("qwen2")
                              .text("qwen2.rope.scaling.type", "yarn")
                              .number("qwen2.rope.scaling.factor", 4.0f)
                              .integer("qwen2.rope.scaling.original_context_length", 1024)
                              .number("qwen2.rope.scaling.yarn_beta_fast", 16.0f)
                              .number("qwen2.rope.scaling.yarn_ext_factor", 1.0f)
                              .boolean("qwen2.rope.scaling.finetuned", true)
                              .number("qwen2.rope.freq_base", 1e6f));
  ASSERT_TRUE(yarn.ok()) << yarn.error().message;
  EXPECT_EQ(yarn->config.rope.type, RopeType::kYarn);
  EXPECT_EQ(yarn->config.rope.factor, 4.0);
  EXPECT_EQ(yarn->config.rope.original_max_position_embeddings, 1024);
  EXPECT_EQ(yarn->config.rope.beta_fast, 16.0);
  EXPECT_EQ(yarn->config.rope.theta, 1e6);
  EXPECT_THAT(yarn->warnings, IsEmpty());
  EXPECT_THAT(error_of(minimal("llama").text("llama.rope.scaling.type", "longrope")), HasSubstr("'longrope'"));
}

/// The factors that converters write for Llama 3.1's scaling.
std::vector<float> llama3_factors(double theta, double factor, double original) {
  std::vector<float> factors;
  for (int i = 0; i < kHeadDim / 2; ++i) {
    const double wavelength = 2 * std::numbers::pi * std::pow(theta, 2.0 * i / kHeadDim);
    double scale = 1;
    if (wavelength > original) {
      scale = factor;
    } else if (wavelength > original / 4) {
      const double smooth = (original / wavelength - 1) / 3;
      scale = 1 / ((1 - smooth) / factor + smooth);
    }
    factors.push_back(static_cast<float>(scale));
  }
  return factors;
}

TEST(GgufConfig, LOAD_12_Llama3ScalingIsFoundFromItsFactors) {
  for (const auto& [theta, factor, original] :
       {std::tuple(500000.0, 8.0, 8192), std::tuple(500000.0, 32.0, 8192), std::tuple(10000.0, 4.0, 64)}) {
    GgufBuilder builder = minimal("llama");
    builder.number("llama.rope.freq_base", static_cast<float>(theta))
        .floats("rope_freqs.weight", {kHeadDim / 2}, llama3_factors(theta, factor, original));
    const auto judged = judge(builder);
    ASSERT_TRUE(judged.ok()) << judged.error().message;
    EXPECT_EQ(judged->config.rope.type, RopeType::kLlama3);
    EXPECT_EQ(judged->config.rope.factor, factor);
    EXPECT_EQ(judged->config.rope.original_max_position_embeddings, original);
  }
  const auto with = [](std::vector<float> factors) {
    const auto size = static_cast<int64_t>(factors.size());
    return error_of(minimal("llama").floats("rope_freqs.weight", {size}, factors));
  };
  EXPECT_EQ(with(std::vector<float>(kHeadDim / 2, 1.0f)), "no error");
  EXPECT_THAT(with({1, 2, 1, 4, 1, 3, 1, 8}), HasSubstr("rope_freqs.weight"));
  EXPECT_THAT(with({1, 8}), HasSubstr("rope_freqs.weight"));
  EXPECT_THAT(with({1, 2, NAN, 4, 4, 4, 4, INFINITY}), HasSubstr("rope_freqs.weight"));
}

TEST(GgufConfig, KeysThatChangeTheResultAreRefusedByName) {
  for (const char* key : {"expert_count", "expert_used_count", "attention.clamp_kqv", "attn_logit_softcapping",
                          "final_logit_softcapping", "attention.scale", "logit_scale", "rope.scaling.attn_factor",
                          "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_log_multiplier", "rope.freq_base_swa",
                          "attention.max_alibi_bias", "attention.kv_lora_rank"}) {
    EXPECT_THAT(error_of(minimal("llama").number(std::string("llama.") + key, 2.0f)), HasSubstr(key));
  }
  EXPECT_THAT(error_of(minimal("llama").boolean("llama.attention.causal", false)), HasSubstr("attention.causal"));
  EXPECT_THAT(error_of(minimal("llama").integers("llama.rope.dimension_sections", {16, 24, 24, 0})),
              HasSubstr("dimension_sections"));
  EXPECT_THAT(
      error_of(
          minimal("llama").text("llama.rope.scaling.type", "yarn").number("llama.rope.scaling.yarn_ext_factor", 0.5f)),
      HasSubstr("yarn_ext_factor"));
  EXPECT_THAT(error_of(minimal("llama").text("llama.expert_count", "none")), HasSubstr("expert_count"));
}

TEST(GgufConfig, NeutralValuesPassAndUnknownKeysGiveOneWarning) {
  const auto judged = judge(minimal("llama")
                                .integer("llama.expert_count", 0)
                                .number("llama.logit_scale", 1.0f)
                                .number("llama.rope.scaling.attn_factor", 1.0f)
                                .boolean("llama.attention.causal", true)
                                .integer("llama.vocab_size", 5)
                                .text("llama.zebra", "x")
                                .integer("llama.attention.stripes", 3)
                                .integer("other.zebra", 1));
  ASSERT_TRUE(judged.ok()) << judged.error().message;
  EXPECT_THAT(judged->warnings,
              ElementsAre(testing::AllOf(HasSubstr("'llama.zebra'"), HasSubstr("'llama.attention.stripes'"))));
}

TEST(GgufConfig, SamplingDefaults) {
  const auto judged = judge(minimal("qwen3")
                                .number("general.sampling.temp", 0.6f)
                                .integer("general.sampling.top_k", 20)
                                .number("general.sampling.top_p", 0.95f)
                                .number("general.sampling.min_p", 0.0f)
                                .number("general.sampling.penalty_repeat", 1.05f)
                                .integer("general.sampling.mirostat", 2));
  ASSERT_TRUE(judged.ok()) << judged.error().message;
  const GenerationConfig& generation = judged->config.generation;
  EXPECT_NEAR(*generation.temperature, 0.6, 1e-6);
  EXPECT_EQ(generation.top_k, 20);
  EXPECT_NEAR(*generation.top_p, 0.95, 1e-6);
  EXPECT_EQ(generation.min_p, 0.0);
  EXPECT_NEAR(*generation.repetition_penalty, 1.05, 1e-6);
  EXPECT_THAT(judged->warnings, ElementsAre(HasSubstr("'mirostat'")));
  EXPECT_FALSE(judge(minimal("qwen3"))->config.generation.temperature.has_value());
  EXPECT_EQ(judge(minimal("qwen3").integer("general.sampling.top_k", 0))->config.generation.top_k, -1);
  EXPECT_THAT(error_of(minimal("qwen3").number("general.sampling.top_p", 0.0f)), HasSubstr("general.sampling.top_p"));
}

}  // namespace
}  // namespace quire
