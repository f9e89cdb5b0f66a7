// config.json and generation_config.json (or a GGUF's metadata) as one checked struct.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/own_fields.h"
#include "ops/activation_kind.h"
#include "tensor/dtype.h"

namespace quire {

enum class RopeType : uint8_t { kDefault, kLinear, kDynamic, kYarn, kLlama3 };

/// How rotary angles are computed; fields as in transformers' rope_parameters.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double partial_rotary_factor = 1.0;
  double factor = 1.0;                                             ///< linear, dynamic, yarn, llama3
  int64_t original_max_position_embeddings = 0;                    ///< yarn, llama3, dynamic; 0 where not given
  double low_freq_factor = 1.0, high_freq_factor = 4.0;            ///< llama3
  double beta_fast = 32.0, beta_slow = 1.0;                        ///< yarn
  std::optional<double> attention_factor, mscale, mscale_all_dim;  ///< yarn
  bool truncate = true;                                            ///< yarn
};

/// Sampling defaults and stop tokens of generation_config.json.
struct GenerationConfig {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k, max_new_tokens;
  std::vector<int32_t> eos_token_ids;
};

enum class LayerType : uint8_t { kFullAttention, kSlidingAttention };

/// What a model needs to know of its checkpoint. Every field that changes results is here or was refused by name.
struct ModelConfig {
  std::string architecture;  ///< "LlamaForCausalLM"
  std::string model_type;    ///< "llama"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;  ///< as given, else hidden_size / num_attention_heads
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  Activation hidden_act = Activation::kSilu;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  std::optional<int64_t> sliding_window;  ///< absent when the model or its use_sliding_window says none
  std::vector<LayerType> layer_types;     ///< one per layer
  RopeConfig rope;
  DType dtype = DType::kFloat32;  ///< the checkpoint's own (torch_dtype / dtype), else its tensors' most common
  std::optional<int32_t> bos_token_id, pad_token_id;
  std::vector<int32_t> eos_token_ids;  ///< of config.json and generation_config.json together
  GenerationConfig generation;
  OwnFields own_fields;  ///< what an architecture that is not built in reads beside these
};

/// Reads and judges `folder`/config.json and, where it exists, generation_config.json. Unknown architectures are left
/// to the registry; an activation, rope type or field that changes the result and is not handled is refused by name.
Result<ModelConfig> load_model_config(const std::filesystem::path& folder);

}  // namespace quire
