#include "checkpoint/gguf_config.h"

#include <algorithm>
#include <limits>
#include <map>

#include "checkpoint/gguf_metadata.h"
#include "checkpoint/gguf_rope.h"
#include "checkpoint/model_config_json.h"
#include "checkpoint/model_family.h"
#include "checkpoint/printable.h"

namespace quire {
namespace {

const GgufTensor* find_tensor(const GgufFile& file, std::string_view name) {
  const auto found = std::ranges::find(file.tensors(), name, &GgufTensor::name);
  return found == file.tensors().end() ? nullptr : &*found;
}

void read_sizes(GgufMetadata& metadata, ModelConfig& config) {
  config.max_position_embeddings = metadata.required("context_length", int64_t{1} << 32);
  config.hidden_size = metadata.required("embedding_length", 1 << 20);
  config.intermediate_size = metadata.required("feed_forward_length", 1 << 24);
  config.num_hidden_layers = metadata.required("block_count", 4096);
  config.num_attention_heads = metadata.required("attention.head_count", 65536);
  config.num_key_value_heads =
      metadata.integer("attention.head_count_kv", 1, 65536).value_or(config.num_attention_heads);
  const auto epsilon = metadata.number("attention.layer_norm_rms_epsilon", 0.0, 1.0);
  if (!epsilon) metadata.refuse("attention.layer_norm_rms_epsilon", "is missing");
  config.rms_norm_eps = epsilon.value_or(1e-6);
  const int64_t derived = std::max<int64_t>(1, config.hidden_size / config.num_attention_heads);
  const auto key_length = metadata.integer("attention.key_length", 1, 4096);
  const auto rotary = metadata.integer("rope.dimension_count", 1, 4096);
  config.head_dim = key_length.value_or(rotary.value_or(derived));
  if (metadata.integer("attention.value_length", 1, 4096).value_or(config.head_dim) != config.head_dim) {
    metadata.refuse("attention.value_length", "differs from the key length, which is not supported");
  }
  if (rotary.value_or(config.head_dim) != config.head_dim) {
    metadata.refuse("rope.dimension_count", "differs from the head size, which is not supported");
  }
}

void read_window(GgufMetadata& metadata, ModelConfig& config) {
  config.layer_types.assign(static_cast<size_t>(config.num_hidden_layers), LayerType::kFullAttention);
  const int64_t window = metadata.integer("attention.sliding_window", 0, int64_t{1} << 32).value_or(0);
  if (window == 0) return;
  config.sliding_window = window;
  std::ranges::fill(config.layer_types, LayerType::kSlidingAttention);
}

/// After read_vocabulary().
Status read_tokens(const GgufFile& file, ModelConfig& config) {
  GgufMetadata tokenizer(file, "tokenizer.ggml.");
  const auto id = [&](const char* key) -> std::optional<int32_t> {
    const auto value = tokenizer.integer(key, -1, std::numeric_limits<uint32_t>::max());
    if (!value || *value < 0 || *value > INT32_MAX) return std::nullopt;
    return static_cast<int32_t>(*value);
  };
  config.bos_token_id = id("bos_token_id");
  config.pad_token_id = id("padding_token_id");
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    const auto token = id(key);
    if (!token) continue;
    if (*token >= config.vocab_size) {
      return invalid_argument(file.description() + ": tokenizer.ggml." + key + " " + std::to_string(*token) +
                              " is beyond the vocabulary of " + std::to_string(config.vocab_size) + " tokens");
    }
    join_token_ids(config.eos_token_ids, {*token});
  }
  config.generation.eos_token_ids = config.eos_token_ids;
  return tokenizer.status();
}

/// general.sampling.*, which are to a GGUF file what generation_config.json is to a folder. Values that switch a
/// sampler off in llama.cpp are brought to the ones that do so here; names without a counterpart are warned of.
Status read_sampling(const GgufFile& file, JudgedConfig& judged) {
  GgufMetadata sampling(file, "general.sampling.");
  GenerationConfig& generation = judged.config.generation;
  if (const auto value = sampling.number("temp", -1e6, 1e6)) generation.temperature = std::max(0.0, *value);
  if (const auto value = sampling.number("top_p", 1e-9, 1e6)) generation.top_p = std::min(1.0, *value);
  if (const auto value = sampling.number("min_p", -1e6, 1.0)) generation.min_p = std::max(0.0, *value);
  if (const auto value = sampling.integer("top_k", INT32_MIN, INT32_MAX)) {
    generation.top_k = *value > 0 ? *value : -1;
  }
  generation.repetition_penalty = sampling.number("penalty_repeat", 1e-9, 1e6);
  std::string names;
  for (const std::string& key : sampling.unread_keys()) names += (names.empty() ? "" : ", ") + quote_name(key);
  if (!names.empty()) {
    judged.warnings.push_back(file.description() + ": sampling defaults that are not applied: " + names);
  }
  return sampling.status();
}

/// One part of a model that was cut into several files lacks the other parts' tensors.
Status refuse_split(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const auto parts, file.find<int64_t>("split.count"));
  if (parts.value_or(1) <= 1) return {};
  return unsupported(file.description() + " is one of " + std::to_string(*parts) +
                     " parts of a model; join them first: llama-gguf-split --merge FIRST_PART OUTPUT");
}

Status read_vocabulary(const GgufFile& file, ModelConfig& config) {
  const GgufTensor* embedding = find_tensor(file, "token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return invalid_argument(file.description() + " has no matrix token_embd.weight; it is not a whole model");
  }
  config.vocab_size = embedding->shape[0];
  if (config.vocab_size > 1 << 24) return invalid_argument(file.description() + ": the vocabulary is too large");
  QUIRE_ASSIGN_OR_RETURN(const auto tokens, file.find<std::vector<std::string_view>>("tokenizer.ggml.tokens"));
  if (tokens && tokens->size() > static_cast<size_t>(config.vocab_size)) {
    return invalid_argument(file.description() + ": the tokenizer has " + std::to_string(tokens->size()) +
                            " tokens, the embedding " + std::to_string(config.vocab_size) + " rows");
  }
  return {};
}

/// The storage type that dtype auto means: of most elements; quantized kinds count as bfloat16.
DType common_dtype(const GgufFile& file) {
  std::map<DType, uint64_t> elements;
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string_view type = tensor.type->name;
    const DType dtype = type == "F32" ? DType::kFloat32 : type == "F16" ? DType::kFloat16 : DType::kBFloat16;
    elements[dtype] += tensor.bytes / tensor.type->block_bytes * tensor.type->block_size;
  }
  DType best = DType::kBFloat16;
  for (const auto& [dtype, count] : elements) {
    if (count > elements[best]) best = dtype;
  }
  return best;
}

}  // namespace

Result<JudgedConfig> gguf_model_config(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const auto architecture, file.get<std::string_view>("general.architecture"));
  const ModelFamily* family = find_model_family_by_type(architecture);
  if (family == nullptr || architecture == "mistral") {
    return unsupported(file.description() + ": GGUF architecture " + quote_name(architecture) +
                       " is not supported; supported are llama, qwen2 and qwen3");
  }
  QUIRE_RETURN_IF_ERROR(refuse_split(file));
  JudgedConfig judged;
  ModelConfig& config = judged.config;
  config.architecture = family->architecture;
  config.model_type = family->model_type;
  GgufMetadata metadata(file, std::string(architecture) + ".");
  read_sizes(metadata, config);
  read_gguf_rope(metadata, config);
  read_window(metadata, config);
  std::string unknown;
  for (const std::string& key : judge_other_metadata(metadata)) {
    unknown += (unknown.empty() ? "" : ", ") + quote_name(metadata.prefix() + key);
  }
  if (!unknown.empty()) judged.warnings.push_back(file.description() + ": unknown metadata is ignored: " + unknown);
  QUIRE_RETURN_IF_ERROR(metadata.status());
  QUIRE_RETURN_IF_ERROR(read_sampling(file, judged));
  QUIRE_RETURN_IF_ERROR(read_vocabulary(file, config));
  QUIRE_RETURN_IF_ERROR(read_tokens(file, config));
  QUIRE_RETURN_IF_ERROR(recover_llama3_rope(file, config));
  config.tie_word_embeddings = find_tensor(file, "output.weight") == nullptr;
  if (architecture != "qwen2") config.attention_bias = find_tensor(file, "blk.0.attn_q.bias") != nullptr;
  config.mlp_bias = find_tensor(file, "blk.0.ffn_gate.bias") != nullptr;
  config.dtype = common_dtype(file);
  judged.dtype_given = true;
  QUIRE_RETURN_IF_ERROR(validate_model_config(config, file.description()));
  return judged;
}

}  // namespace quire
