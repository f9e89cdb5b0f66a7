#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/model_config_json.h"
#include "checkpoint/test_files.h"
#include "checkpoint/weight_source.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<JudgedConfig> judge(const std::string& architecture, const std::string& fields,
                           const std::string& generation = "") {
  return judge_model_config(
      R"({"architectures":[")" + architecture + "\"]" + (fields.empty() ? "" : "," + fields) + "}", generation,
      "model");
}

std::string error_of(const std::string& architecture, const std::string& fields) {
  const auto judged = judge(architecture, fields);
  return judged.ok() ? "no error" : judged.error().message;
}

TEST(ModelLoading, LOAD_06_07_TieDefaults) {
  EXPECT_FALSE(judge("LlamaForCausalLM", "")->config.tie_word_embeddings);
  EXPECT_TRUE(judge("LlamaForCausalLM", R"("tie_word_embeddings":true)")->config.tie_word_embeddings);
}

TEST(ModelLoading, LOAD_09_RopeParameters) {
  const auto judged = judge("LlamaForCausalLM", R"("rope_parameters":{"rope_type":"default","rope_theta":500000})");
  ASSERT_TRUE(judged.ok()) << judged.error().message;
  EXPECT_EQ(judged->config.rope.theta, 500000);
  EXPECT_THAT(error_of("LlamaForCausalLM", R"("rope_scaling":{"type":"longrope","factor":2})"), HasSubstr("longrope"));
}

TEST(ModelLoading, LOAD_12_Llama3Scaling) {
  const auto judged = judge(
      "LlamaForCausalLM",
      R"("rope_theta":5e5,"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":64})");
  ASSERT_TRUE(judged.ok()) << judged.error().message;
  EXPECT_EQ(judged->config.rope.type, RopeType::kLlama3);
  EXPECT_EQ(judged->config.rope.factor, 8);
  EXPECT_EQ(judged->config.rope.original_max_position_embeddings, 64);
}

TEST(ModelLoading, LOAD_14_HeadDim) {
  EXPECT_EQ(judge("LlamaForCausalLM", R"("hidden_size":64,"num_attention_heads":4,"head_dim":32)")->config.head_dim,
            32);
  EXPECT_EQ(judge("LlamaForCausalLM", R"("hidden_size":64,"num_attention_heads":4,"head_dim":null)")->config.head_dim,
            16);
  EXPECT_EQ(
      judge("Qwen3ForCausalLM", R"("hidden_size":64,"num_attention_heads":4,"num_key_value_heads":4)")->config.head_dim,
      128);
}

TEST(ModelLoading, LOAD_15_SlidingWindowLayers) {
  const auto mistral = judge("MistralForCausalLM", R"("num_hidden_layers":2)");
  EXPECT_EQ(mistral->config.sliding_window, 4096);
  EXPECT_THAT(mistral->config.layer_types, testing::Each(LayerType::kSlidingAttention));
  EXPECT_FALSE(judge("MistralForCausalLM", R"("sliding_window":null)")->config.sliding_window.has_value());
  const auto qwen =
      judge("Qwen2ForCausalLM",
            R"("num_hidden_layers":3,"use_sliding_window":true,"sliding_window":32,"max_window_layers":2)");
  EXPECT_THAT(qwen->config.layer_types,
              ElementsAre(LayerType::kFullAttention, LayerType::kFullAttention, LayerType::kSlidingAttention));
  EXPECT_FALSE(judge("Qwen2ForCausalLM", R"("sliding_window":32)")->config.sliding_window.has_value());
}

TEST(ModelLoading, LOAD_15_AWindowOfNothingIsRefusedWhereLayersSlide) {
  EXPECT_THAT(error_of("MistralForCausalLM", R"("sliding_window":0)"), HasSubstr("sliding_window must be null"));
  EXPECT_THAT(error_of("Qwen3ForCausalLM", R"("use_sliding_window":true,"sliding_window":0)"),
              HasSubstr("sliding_window must be null"));
  EXPECT_EQ(error_of("Qwen3ForCausalLM", R"("sliding_window":0)"), "no error");
  EXPECT_EQ(error_of("LlamaForCausalLM", R"("sliding_window":0)"), "no error");
}

TEST(ModelLoading, LOAD_19_EosListsAreJoined) {
  const auto judged = judge("LlamaForCausalLM", R"("eos_token_id":0)", R"({"eos_token_id":[0,7],"temperature":0.6})");
  ASSERT_TRUE(judged.ok()) << judged.error().message;
  EXPECT_THAT(judged->config.eos_token_ids, ElementsAre(0, 7));
  EXPECT_EQ(judged->config.generation.temperature, 0.6);
}

TEST(ModelLoading, AnEosTokenBeyondTheVocabularyIsRefused) {
  EXPECT_THAT(error_of("LlamaForCausalLM", R"("vocab_size":100,"eos_token_id":[2,100])"),
              HasSubstr("model/config.json: eos_token_id 100 is beyond the vocabulary of 100 tokens"));
  const auto judged =
      judge("LlamaForCausalLM", R"("vocab_size":100,"eos_token_id":99)", R"({"eos_token_id":[99,128009]})");
  ASSERT_FALSE(judged.ok());
  EXPECT_THAT(judged.error().message, HasSubstr("model/generation_config.json: eos_token_id 128009"));
}

TEST(ModelLoading, AConfigWithoutArchitecturesIsRefused) {
  for (const char* names : {"", R"("architectures":[],)", R"("architectures":null,)", R"("architectures":[""],)",
                            R"("architectures":"Qwen3ForCausalLM",)", R"("architectures":[3],)"}) {
    const auto judged = judge_model_config("{" + std::string(names) + R"("model_type":"qwen3"})", "", "model");
    ASSERT_FALSE(judged.ok()) << names;
    EXPECT_THAT(
        judged.error().message,
        HasSubstr(R"(architectures must be a list that names the model's class, such as ["Qwen3ForCausalLM"])"));
  }
}

TEST(ModelLoading, LOAD_20_ThetaDefault) {
  for (const char* name : {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    EXPECT_EQ(judge(name, "")->config.rope.theta, 10000.0) << name;
  }
}

TEST(ModelConfig, FieldsThatChangeTheResultAreRefusedByName) {
  EXPECT_THAT(error_of("LlamaForCausalLM", R"("attn_logit_softcapping":50.0)"), HasSubstr("attn_logit_softcapping"));
  EXPECT_EQ(error_of("LlamaForCausalLM", R"("attn_logit_softcapping":null,"logits_scaling":1.0)"), "no error");
  EXPECT_THAT(error_of("LlamaForCausalLM", R"("hidden_act":"xielu")"), HasSubstr("xielu"));
  EXPECT_THAT(error_of("LlamaForCausalLM", R"("num_hidden_layers":-1)"), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(error_of("LlamaForCausalLM", R"("num_key_value_heads":5)"), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(judge("LlamaForCausalLM", R"("zebra":1)")->warnings, ElementsAre(HasSubstr("'zebra'")));
}

TEST(Quantization, QUAN_05_UnsupportedMethodsAreRefusedBeforeWeights) {
  const test::TemporaryFolder folder;
  for (const std::string method : {"gptq", "awq", "foo"}) {
    folder.write("config.json", R"({"architectures":["LlamaForCausalLM"],"quantization_config":{"quant_method":")" +
                                    method + R"(","bits":3}})");
    const auto opened = open_checkpoint(folder.path());
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message,
                testing::AllOf(HasSubstr(method), HasSubstr("bits 3"), HasSubstr("supported are")));
  }
}

TEST(OpenCheckpoint, GoldenModels) {
  for (const char* name : {"llama", "llama-tied-bias", "llama3-rope", "llama-rope-linear", "llama-rope-yarn",
                           "mistral-sliding", "qwen2", "qwen3"}) {
    const auto opened = open_checkpoint(std::filesystem::path(QUIRE_TESTS_DIR "/golden/models") / name);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const WeightInfo* embedding = opened->weights->find("model.embed_tokens.weight");
    ASSERT_NE(embedding, nullptr) << name;
    EXPECT_EQ(embedding->rows(), opened->config.vocab_size);
    EXPECT_EQ(embedding->cols(), opened->config.hidden_size);
  }
}

TEST(OpenCheckpoint, MissingPathsAndPicklesAreExplained) {
  EXPECT_THAT(open_checkpoint("org/model").error().message, HasSubstr("not found"));
  const test::TemporaryFolder folder;
  EXPECT_THAT(open_checkpoint(folder.path()).error().message, HasSubstr("no config.json"));
  folder.write("config.json", R"({"architectures":["LlamaForCausalLM"]})");
  folder.write("pytorch_model.bin", "x");
  EXPECT_THAT(open_checkpoint(folder.path()).error().message, HasSubstr("convert"));
}

}  // namespace
}  // namespace quire
