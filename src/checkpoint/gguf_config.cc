#include "checkpoint/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numbers>

#include "checkpoint/model_config_json.h"
#include "checkpoint/model_family.h"
#include "checkpoint/printable.h"

namespace quire {
namespace {

/// Reads metadata keys below "<architecture>." and remembers the first mistake.
class Metadata {
 public:
  Metadata(const GgufFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  std::optional<int64_t> integer(const std::string& key, int64_t min, int64_t max) {
    const auto value = find<int64_t>(key);
    if (value && (*value < min || *value > max)) {
      fail(invalid_argument(file_.description() + ": " + prefix_ + key + " must be from " + std::to_string(min) +
                            " to " + std::to_string(max) + ", it is " + std::to_string(*value)));
      return std::nullopt;
    }
    return value;
  }
  int64_t required(const std::string& key, int64_t max) {
    const auto value = integer(key, 1, max);
    if (!value) fail(invalid_argument(file_.description() + " lacks a valid " + prefix_ + key));
    return value.value_or(1);
  }
  std::optional<double> number(const std::string& key, double min, double max) {
    const auto value = find<double>(key);
    if (value && !(*value >= min && *value <= max)) {
      fail(invalid_argument(file_.description() + ": " + prefix_ + key + " is out of range"));
      return std::nullopt;
    }
    return value;
  }
  template <typename T>
  std::optional<T> find(const std::string& key) {
    auto value = file_.find<T>(prefix_ + key);
    if (value.ok()) return *value;
    fail(value.error());
    return std::nullopt;
  }
  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }
  void refuse(const std::string& key, const std::string& why) {
    fail(unsupported(file_.description() + ": " + prefix_ + key + " " + why));
  }
  Status status() const {
    if (error_) return *error_;
    return {};
  }

 private:
  const GgufFile& file_;
  const std::string prefix_;
  std::optional<Error> error_;
};

const GgufTensor* find_tensor(const GgufFile& file, std::string_view name) {
  const auto found = std::ranges::find(file.tensors(), name, &GgufTensor::name);
  return found == file.tensors().end() ? nullptr : &*found;
}

void refuse_unhandled(Metadata& metadata) {
  if (metadata.integer("expert_count", 0, INT32_MAX).value_or(0) > 0)
    metadata.refuse("expert_count", "is not supported");
  if (!metadata.find<bool>("attention.causal").value_or(true)) metadata.refuse("attention.causal", "must be true");
  for (const char* key :
       {"attn_logit_softcapping", "final_logit_softcapping", "attention.clamp_kqv", "attention.scale"}) {
    if (metadata.number(key, -1e9, 1e9).value_or(0.0) != 0.0) metadata.refuse(key, "is not supported");
  }
  for (const char* key : {"logit_scale", "embedding_scale", "residual_scale"}) {
    if (metadata.number(key, -1e9, 1e9).value_or(1.0) != 1.0) metadata.refuse(key, "is not supported");
  }
}

void read_sizes(Metadata& metadata, ModelConfig& config) {
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

void read_rope(Metadata& metadata, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.theta = metadata.number("rope.freq_base", 1.001, 1e12).value_or(10000.0);
  const std::string type(metadata.find<std::string_view>("rope.scaling.type").value_or("none"));
  const auto old_factor = metadata.number("rope.scale_linear", 1e-6, 1e6);
  const double factor = metadata.number("rope.scaling.factor", 0.0, 1e6).value_or(old_factor.value_or(1.0));
  rope.original_max_position_embeddings =
      metadata.integer("rope.scaling.original_context_length", 0, int64_t{1} << 32).value_or(0);
  if (metadata.number("rope.scaling.attn_factor", 0.0, 1e6).value_or(1.0) != 1.0) {
    metadata.refuse("rope.scaling.attn_factor", "is not supported");
  }
  if (metadata.number("rope.scaling.yarn_log_multiplier", -1e6, 1e6).value_or(0.0) != 0.0) {
    metadata.refuse("rope.scaling.yarn_log_multiplier", "is not supported");
  }
  if (type == "yarn") {
    rope.type = RopeType::kYarn;
    if (rope.original_max_position_embeddings == 0)
      rope.original_max_position_embeddings = config.max_position_embeddings;
    rope.beta_fast = metadata.number("rope.scaling.yarn_beta_fast", 1e-6, 1e6).value_or(32.0);
    rope.beta_slow = metadata.number("rope.scaling.yarn_beta_slow", 1e-6, 1e6).value_or(1.0);
  } else if (type == "linear" || (type == "none" && old_factor.value_or(1.0) != 1.0)) {
    rope.type = RopeType::kLinear;
  } else if (type != "none") {
    metadata.refuse("rope.scaling.type", quote_name(type) + " is not supported; supported are none, linear and yarn");
  }
  if (rope.type != RopeType::kDefault) rope.factor = factor > 0.0 ? factor : 1.0;
}

/// The factors by which llama3's scaling divides the inverse frequencies, as converters store them in
/// rope_freqs.weight.
bool matches_llama3(std::span<const float> factors, const RopeConfig& rope) {
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  for (size_t i = 0; i < factors.size(); ++i) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(rope.theta, static_cast<double>(i) / static_cast<double>(factors.size()));
    double expected = 1.0;
    if (wavelength > original / rope.low_freq_factor) {
      expected = rope.factor;
    } else if (wavelength >= original / rope.high_freq_factor) {
      const double smooth =
          (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      expected = 1.0 / ((1.0 - smooth) / rope.factor + smooth);
    }
    if (!(std::abs(static_cast<double>(factors[i]) - expected) <= 1e-3 * expected)) return false;
  }
  return true;
}

/// rope_freqs.weight holds the effect of llama3's scaling, not its parameters: find the ones that give it, or refuse.
Status recover_llama3_rope(const GgufFile& file, ModelConfig& config) {
  const GgufTensor* tensor = find_tensor(file, "rope_freqs.weight");
  if (tensor == nullptr) return {};
  const auto refusal = [&] {
    return unsupported(file.description() +
                       ": rope_freqs.weight holds rotary factors that are not those of llama3 scaling");
  };
  const auto half = static_cast<size_t>(config.head_dim / 2);
  const auto bytes = file.data(*tensor);
  if (std::string_view(tensor->type->name) != "F32" || bytes.size() != half * sizeof(float)) return refusal();
  std::vector<float> factors(half);
  std::memcpy(factors.data(), bytes.data(), bytes.size());
  if (std::ranges::all_of(factors, [](float factor) { return factor == 1.0f; })) return {};
  if (config.rope.type != RopeType::kDefault) return refusal();
  RopeConfig candidate = config.rope;
  candidate.type = RopeType::kLlama3;
  candidate.factor = static_cast<double>(std::ranges::max(factors));
  for (int64_t original = 32; original <= 1 << 20; original *= 2) {
    candidate.original_max_position_embeddings = original;
    if (!matches_llama3(factors, candidate)) continue;
    config.rope = candidate;
    return {};
  }
  return refusal();
}

void read_tokens(const GgufFile& file, ModelConfig& config, Metadata& metadata) {
  Metadata tokenizer(file, "tokenizer.ggml.");
  const auto id = [&](const char* key) -> std::optional<int32_t> {
    const auto value = tokenizer.integer(key, -1, std::numeric_limits<uint32_t>::max());
    if (!value || *value < 0 || *value > INT32_MAX) return std::nullopt;
    return static_cast<int32_t>(*value);
  };
  config.bos_token_id = id("bos_token_id");
  config.pad_token_id = id("padding_token_id");
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    if (const auto token = id(key)) join_token_ids(config.eos_token_ids, {*token});
  }
  config.generation.eos_token_ids = config.eos_token_ids;
  if (const Status status = tokenizer.status(); !status.ok()) metadata.fail(status.error());
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

Result<ModelConfig> gguf_model_config(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const auto architecture, file.get<std::string_view>("general.architecture"));
  const ModelFamily* family = find_model_family_by_type(architecture);
  if (family == nullptr || architecture == "mistral") {
    return unsupported(file.description() + ": GGUF architecture " + quote_name(architecture) +
                       " is not supported; supported are llama, qwen2 and qwen3");
  }
  ModelConfig config;
  config.architecture = family->architecture;
  config.model_type = family->model_type;
  Metadata metadata(file, std::string(architecture) + ".");
  refuse_unhandled(metadata);
  read_sizes(metadata, config);
  read_rope(metadata, config);
  read_tokens(file, config, metadata);
  config.layer_types.assign(static_cast<size_t>(config.num_hidden_layers), LayerType::kFullAttention);
  if (const int64_t window = metadata.integer("attention.sliding_window", 0, int64_t{1} << 32).value_or(0);
      window > 0) {
    config.sliding_window = window;
    std::ranges::fill(config.layer_types, LayerType::kSlidingAttention);
  }
  QUIRE_RETURN_IF_ERROR(metadata.status());
  QUIRE_RETURN_IF_ERROR(read_vocabulary(file, config));
  QUIRE_RETURN_IF_ERROR(recover_llama3_rope(file, config));
  config.tie_word_embeddings = find_tensor(file, "output.weight") == nullptr;
  if (architecture != "qwen2") config.attention_bias = find_tensor(file, "blk.0.attn_q.bias") != nullptr;
  config.mlp_bias = find_tensor(file, "blk.0.ffn_gate.bias") != nullptr;
  config.dtype = common_dtype(file);
  QUIRE_RETURN_IF_ERROR(validate_model_config(config, file.description()));
  return config;
}

}  // namespace quire
