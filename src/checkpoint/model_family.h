// What the supported families' config classes default to, and which fields each understands: transformers' LlamaConfig,
// MistralConfig, Qwen2Config and Qwen3Config as data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/json_fields.h"
#include "checkpoint/window_rule.h"

namespace quire {

struct ModelFamily {
  std::string_view architecture;
  std::string_view model_type;
  int64_t vocab_size, intermediate_size;
  int64_t num_key_value_heads;  ///< when the field is absent; 0: as many as attention heads (as for null)
  int64_t head_dim;             ///< when the field is absent; 0: derived (as for null)
  int64_t max_position_embeddings;
  std::optional<int32_t> bos_token_id, eos_token_id;
  WindowRule window_rule;
  std::optional<int64_t> sliding_window;  ///< when the field is absent
  bool has_attention_bias, has_mlp_bias;  ///< whether the field is understood
};

/// The family of an architecture ("LlamaForCausalLM"), or nullptr for one that is not built in.
const ModelFamily* find_model_family(std::string_view architecture);
/// The family whose config class has that model_type ("llama"), or nullptr.
const ModelFamily* find_model_family_by_type(std::string_view model_type);
/// Defaults for architectures that are not built in.
const ModelFamily& generic_model_family();

/// Judges the fields that no getter has read: those that would change the result are refused unless they have the value
/// that changes nothing, harmless ones pass, and the names of all others are returned for a warning.
std::vector<std::string> judge_other_fields(const ModelFamily& family, JsonFields& fields);

/// "LlamaForCausalLM, ...": the built-in ones, for messages.
std::string built_in_architectures();

}  // namespace quire
