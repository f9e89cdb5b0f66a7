// Names of tensors as PEFT and other tools write them.
#include "lora/adapter_tensor_name.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using Role = AdapterTensorRole;

struct Case {
  const char* name;
  const char* path;
  Role role;
  const char* adapter = "";
};

TEST(AdapterTensorName, KnowsTheFormsInUse) {
  const char* q = "model.layers.0.self_attn.q_proj";
  const Case cases[] = {
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", q, Role::kLoraA},
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", q, Role::kLoraB},
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias", q, Role::kLoraBias},
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight", q, Role::kLoraA, "default"},
      {"model.layers.0.self_attn.q_proj.lora_A.weight", q, Role::kLoraA},
      {"layers.0.self_attn.q_proj.lora_A.weight", q, Role::kLoraA},
      {"base_model.model.layers.0.self_attn.q_proj.lora_A.weight", q, Role::kLoraA},
      {"base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_A.weight", q, Role::kLoraA},
      {"base_model.model.language_model.model.layers.0.self_attn.q_proj.lora_A.weight", q, Role::kLoraA},
      {"base_model.model.language_model.lm_head.lora_A.weight", "lm_head", Role::kLoraA},
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector", q, Role::kMagnitude},
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector.weight", q, Role::kMagnitude},
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector.default", q, Role::kMagnitude,
       "default"},
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector.default.weight", q, Role::kMagnitude,
       "default"},
      {"base_model.model.model.layers.0.self_attn.q_proj.base_layer.bias", q, Role::kBias},
      {"base_model.model.model.layers.0.self_attn.q_proj.bias", q, Role::kBias},
      {"base_model.model.model.embed_tokens.lora_embedding_A", "model.embed_tokens", Role::kEmbeddingA},
      {"base_model.model.model.embed_tokens.lora_embedding_B.default", "model.embed_tokens", Role::kEmbeddingB,
       "default"},
      {"base_model.model.model.embed_tokens.base_layer.weight", "model.embed_tokens", Role::kBaseCopy},
      {"base_model.model.model.embed_tokens.token_adapter.base_layer.weight", "model.embed_tokens", Role::kBaseCopy},
      {"base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta", "model.embed_tokens",
       Role::kTokenRows},
      {"base_model.model.lm_head.original_module.weight", "lm_head", Role::kBaseCopy},
      {"base_model.model.lm_head.modules_to_save.weight", "lm_head", Role::kWeight},
      {"base_model.model.lm_head.modules_to_save.default.weight", "lm_head", Role::kWeight, "default"},
      {"base_model.model.lm_head.weight", "lm_head", Role::kWeight},
      {"lm_head.weight", "lm_head", Role::kWeight},
      {"base_model.model.model.norm.weight", "model.norm", Role::kWeight},
  };
  for (const Case& expected : cases) {
    const auto name = parse_adapter_tensor_name(expected.name);
    ASSERT_TRUE(name.has_value()) << expected.name;
    EXPECT_EQ(name->path, expected.path) << expected.name;
    EXPECT_EQ(name->role, expected.role) << expected.name;
    EXPECT_EQ(name->adapter, expected.adapter) << expected.name;
  }
}

TEST(AdapterTensorName, KeepsTheTrainedPathForTheConfigsPatterns) {
  const auto name =
      parse_adapter_tensor_name("base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_A.weight");
  EXPECT_EQ(name->trained_path, "model.language_model.layers.0.self_attn.q_proj");
}

TEST(AdapterTensorName, KnowsNoOthers) {
  for (const char* name : {"", ".", "weight", "lora_A.weight", "a..lora_A.weight", "model.q_proj.lora_A", "x.lora_C",
                           "model.q_proj.lora_A.a.b.c", "prompt_embeddings", "model.trainable_tokens_delta"}) {
    EXPECT_FALSE(parse_adapter_tensor_name(name).has_value()) << name;
  }
  EXPECT_FALSE(parse_adapter_tensor_name(std::string(600, 'a') + ".weight").has_value());
}

}  // namespace
}  // namespace quire
