#include "checkpoint/model_config_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/architecture_config.h"
#include "checkpoint/declared_fields.h"
#include "checkpoint/generation_config.h"
#include "checkpoint/json_document.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/model_family.h"
#include "checkpoint/printable.h"
#include "checkpoint/quantized_checkpoint.h"
#include "checkpoint/rope_config.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr int64_t kMaxVocabulary = int64_t{1} << 24;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxIntermediate = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 65536;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxPositions = int64_t{1} << 32;

/// Fills model_type and the architecture, which is never guessed: a model type has several classes.
void read_names(JsonFields& fields, ModelConfig& config) {
  config.model_type = fields.text("model_type", "");
  const json* const names = fields.find("architectures");
  if (names != nullptr && names->is_array() && !names->empty() && names->front().is_string() &&
      !names->front().get_ref<const std::string&>().empty()) {
    config.architecture = names->front().get<std::string>();
    return;
  }
  const ModelFamily* const family = find_model_family_by_type(config.model_type);
  const std::string example(family != nullptr ? family->architecture : "LlamaForCausalLM");
  fields.fail_value("architectures", "a list that names the model's class, such as [\"" + example + "\"]");
}

/// The declaration of an architecture that code outside quire has brought; nullptr where there is none.
Result<const ArchitectureConfig*> find_declared(JsonFields& fields, ModelConfig& config) {
  const ArchitectureConfigs& configs = ArchitectureConfigs::instance();
  QUIRE_ASSIGN_OR_RETURN(const ArchitectureConfig* const declared, configs.find(config.architecture));
  if (declared == nullptr) return declared;
  if (config.model_type.empty()) config.model_type = declared->model_type;
  if (!declared->model_type.empty() && config.model_type != declared->model_type) {
    return invalid_argument(fields.where() + ": model_type " + quote_name(config.model_type) +
                                " contradicts architecture " + config.architecture,
                            "model_type");
  }
  return declared;
}

/// The family of a built-in architecture; the generic one for others.
const ModelFamily& find_family(JsonFields& fields, ModelConfig& config) {
  const ModelFamily* of_type = find_model_family_by_type(config.model_type);
  const ModelFamily* family = find_model_family(config.architecture);
  if (family == nullptr) return generic_model_family();
  if (config.model_type.empty()) config.model_type = family->model_type;
  if (of_type != nullptr && of_type != family) {
    fields.fail(invalid_argument(fields.where() + ": model_type " + quote_name(config.model_type) +
                                     " contradicts architecture " + config.architecture,
                                 "model_type"));
  }
  return *family;
}

void read_sizes(JsonFields& fields, const ModelFamily& family, ModelConfig& config) {
  config.vocab_size = fields.integer("vocab_size", family.vocab_size, 1, kMaxVocabulary);
  config.hidden_size = fields.integer("hidden_size", 4096, 1, kMaxWidth);
  config.intermediate_size = fields.integer("intermediate_size", family.intermediate_size, 1, kMaxIntermediate);
  config.num_hidden_layers = fields.integer("num_hidden_layers", 32, 1, kMaxLayers);
  config.num_attention_heads = fields.integer("num_attention_heads", 32, 1, kMaxHeads);
  config.max_position_embeddings =
      fields.integer("max_position_embeddings", family.max_position_embeddings, 1, kMaxPositions);
  config.rms_norm_eps = fields.number("rms_norm_eps", 1e-6, 0.0, 1.0);
}

/// Key-value heads and head size: absent takes the class's default, null is derived.
void read_heads(JsonFields& fields, const json& object, const ModelFamily& family, ModelConfig& config) {
  const int64_t kv_default = object.contains("num_key_value_heads") ? 0 : family.num_key_value_heads;
  config.num_key_value_heads =
      fields.integer("num_key_value_heads", kv_default != 0 ? kv_default : config.num_attention_heads, 1, kMaxHeads);
  const int64_t dim_default = object.contains("head_dim") ? 0 : family.head_dim;
  if (dim_default == 0 && !fields.has("head_dim") && config.hidden_size % config.num_attention_heads != 0) {
    fields.fail(invalid_argument(fields.where() + ": hidden_size " + std::to_string(config.hidden_size) +
                                     " is not a multiple of num_attention_heads " +
                                     std::to_string(config.num_attention_heads) + " and head_dim is not given",
                                 "hidden_size"));
  }
  config.head_dim = fields.integer(
      "head_dim",
      dim_default != 0 ? dim_default : std::max<int64_t>(1, config.hidden_size / config.num_attention_heads), 1,
      kMaxHeadDim);
}

void read_activation(JsonFields& fields, ModelConfig& config) {
  const std::string name = fields.text("hidden_act", "silu");
  if (name == "silu" || name == "swish") {
    config.hidden_act = Activation::kSilu;
  } else if (name == "gelu") {
    config.hidden_act = Activation::kGelu;
  } else if (name == "gelu_pytorch_tanh" || name == "gelu_new") {
    config.hidden_act = Activation::kGeluTanh;
  } else if (name == "relu") {
    config.hidden_act = Activation::kRelu;
  } else {
    fields.fail(unsupported(fields.where() + ": activation " + quote_name(name) +
                                " is not supported; supported are silu, gelu, gelu_pytorch_tanh and relu",
                            "hidden_act"));
  }
}

/// layer_types as given; empty when the field is absent.
std::vector<LayerType> read_layer_types(JsonFields& fields, const ModelConfig& config) {
  std::vector<LayerType> types;
  const json* given = fields.find("layer_types");
  if (given == nullptr) return types;
  const bool right_size = given->is_array() && given->size() == static_cast<size_t>(config.num_hidden_layers);
  if (!right_size) fields.fail_value("layer_types", "a list with one entry per layer");
  if (!given->is_array()) return types;
  for (const json& name : *given) {
    if (name == "full_attention") {
      types.push_back(LayerType::kFullAttention);
    } else if (name == "sliding_attention") {
      types.push_back(LayerType::kSlidingAttention);
    } else {
      fields.fail(unsupported(fields.where() + ": layer_types has " +
                                  quote_name(name.is_string() ? name.get<std::string>() : "?") +
                                  "; supported are full_attention and sliding_attention",
                              "layer_types"));
      break;
    }
  }
  return types;
}

/// Takes a window that layers use. One of 0 means none to architectures from outside; in the built-in ones no position
/// would see any, so it is a mistake.
void take_window(JsonFields& fields, const ModelFamily& family, std::optional<int64_t> window, ModelConfig& config) {
  if (window != 0) {
    config.sliding_window = window;
  } else if (find_model_family(family.architecture) != nullptr) {
    fields.fail_value("sliding_window", "null for none, or an integer from 1");
  }
}

void read_window(JsonFields& fields, const json& object, const ModelFamily& family, ModelConfig& config) {
  auto window = fields.optional_integer("sliding_window", 0, kMaxPositions);
  if (!object.contains("sliding_window")) window = family.sliding_window;
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  std::vector<LayerType> given = read_layer_types(fields, config);
  config.layer_types.assign(layers, LayerType::kFullAttention);
  switch (family.window_rule) {
    case WindowRule::kRefused:
      if (window.value_or(0) != 0 || std::ranges::find(given, LayerType::kSlidingAttention) != given.end()) {
        fields.fail(unsupported(fields.where() + ": sliding attention is not supported for " + config.architecture,
                                "sliding_window"));
      }
      return;
    case WindowRule::kNone:
      if (std::ranges::find(given, LayerType::kSlidingAttention) != given.end()) {
        fields.fail(unsupported(fields.where() + ": sliding layer_types are not supported for " + config.architecture,
                                "layer_types"));
      }
      return;
    case WindowRule::kAllLayers:
      take_window(fields, family, window, config);
      if (config.sliding_window) config.layer_types.assign(layers, LayerType::kSlidingAttention);
      if (!given.empty() && given != config.layer_types) {
        fields.fail(unsupported(
            fields.where() + ": layer_types must agree with sliding_window in every layer for " + config.architecture,
            "layer_types"));
      }
      return;
    case WindowRule::kQwen: {
      // Of the built-in families that slide so all have the field; to others the window alone says it.
      const bool use_window = fields.boolean("use_sliding_window", find_model_family(family.architecture) == nullptr);
      const int64_t first = fields.integer("max_window_layers", 28, 0, INT32_MAX);
      if (use_window) take_window(fields, family, window, config);
      if (!given.empty()) {
        config.layer_types = std::move(given);
      } else if (config.sliding_window) {
        for (size_t i = static_cast<size_t>(first); i < layers; ++i)
          config.layer_types[i] = LayerType::kSlidingAttention;
      }
      return;
    }
  }
}

Status judge_eos_tokens(const std::vector<int32_t>& ids, int64_t vocab_size, const std::string& where) {
  for (const int32_t id : ids) {
    if (id < vocab_size) continue;
    return invalid_argument(where + ": eos_token_id " + std::to_string(id) + " is beyond the vocabulary of " +
                                std::to_string(vocab_size) + " tokens, so no text could ever end with it",
                            "eos_token_id");
  }
  return {};
}

void read_tokens(JsonFields& fields, const json& object, const ModelFamily& family, ModelConfig& config) {
  const auto single = [&](const char* key, std::optional<int32_t> fallback) -> std::optional<int32_t> {
    const auto ids = fields.token_ids(key);
    if (!ids.empty()) return ids.front();
    return object.contains(key) ? std::nullopt : fallback;
  };
  config.bos_token_id = single("bos_token_id", family.bos_token_id);
  config.pad_token_id = single("pad_token_id", std::nullopt);
  config.eos_token_ids = fields.token_ids("eos_token_id");
  const Status eos = judge_eos_tokens(config.eos_token_ids, config.vocab_size, fields.where());
  if (!eos.ok()) fields.fail(eos.error());
  if (!object.contains("eos_token_id") && family.eos_token_id) config.eos_token_ids = {*family.eos_token_id};
}

void read_dtype(JsonFields& fields, JudgedConfig& judged) {
  const std::string old_name = fields.text("torch_dtype", "");
  const std::string name = fields.text("dtype", old_name);
  if (name.empty() || name == "auto") return;
  const auto dtype = parse_float_dtype(name);
  if (!dtype) {
    fields.fail(unsupported(fields.where() + ": dtype " + quote_name(name) +
                                " is not supported; supported are float32, bfloat16 and float16",
                            "dtype"));
    return;
  }
  judged.config.dtype = *dtype;
  judged.dtype_given = true;
}

void read_fields(JsonFields& fields, const json& object, const ModelFamily& family, JudgedConfig& judged) {
  ModelConfig& config = judged.config;
  read_sizes(fields, family, config);
  read_heads(fields, object, family, config);
  read_activation(fields, config);
  if (family.has_attention_bias) config.attention_bias = fields.boolean("attention_bias", false);
  if (family.has_mlp_bias) config.mlp_bias = fields.boolean("mlp_bias", false);
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", false);
  config.rope = read_rope_config(fields, config.max_position_embeddings);
  read_window(fields, object, family, config);
  read_tokens(fields, object, family, config);
  read_dtype(fields, judged);
}

void judge_rest(JsonFields& fields, const ModelFamily& family, JudgedConfig& judged) {
  if (judged.config.rope.partial_rotary_factor != 1.0) {
    fields.fail(
        unsupported(fields.where() + ": partial_rotary_factor is not supported for " + judged.config.architecture,
                    "partial_rotary_factor"));
  }
  std::string names;
  for (const std::string& key : judge_other_fields(family, fields))
    names += (names.empty() ? "" : ", ") + quote_name(key);
  if (!names.empty()) judged.warnings.push_back(fields.where() + ": unknown fields are ignored: " + names);
}

/// Fields that are judged before all others.
void mark_judged(JsonFields& fields) {
  for (const char* key : {"architectures", "model_type", "quantization_config", "compression_config", "quantization"}) {
    fields.mark_read(key);
  }
}

Result<JudgedConfig> judge_declared(const ArchitectureConfig& declared, const json& object, const std::string& where,
                                    JudgedConfig judged) {
  QUIRE_ASSIGN_OR_RETURN(const json renamed, apply_declaration(declared, object, where));
  JsonFields fields(renamed, where);
  mark_judged(fields);
  const ModelFamily family = declared_family(judged.config.architecture, declared);
  read_fields(fields, renamed, family, judged);
  judge_declared_fields(declared, family, fields, judged.config);
  QUIRE_RETURN_IF_ERROR(fields.status());
  QUIRE_RETURN_IF_ERROR(validate_model_config(judged.config, where));
  return judged;
}

Result<JudgedConfig> judge(const json& object, const std::string& where) {
  JudgedConfig judged;
  JsonFields fields(object, where);
  read_names(fields, judged.config);
  QUIRE_RETURN_IF_ERROR(fields.status());
  QUIRE_RETURN_IF_ERROR(refuse_quantized_config(object, where));
  QUIRE_ASSIGN_OR_RETURN(const ArchitectureConfig* const declared, find_declared(fields, judged.config));
  if (declared != nullptr) return judge_declared(*declared, object, where, std::move(judged));
  const ModelFamily& family = find_family(fields, judged.config);
  QUIRE_RETURN_IF_ERROR(fields.status());
  mark_judged(fields);
  read_fields(fields, object, family, judged);
  if (!family.architecture.empty()) judge_rest(fields, family, judged);
  if (fields.status().ok()) {
    if (const Status status = validate_model_config(judged.config, where); !status.ok()) fields.fail(status.error());
  }
  if (fields.status().ok()) return judged;
  Error error = fields.status().error();
  if (family.architecture.empty()) {
    error.message += "; its architecture " + quote_name(judged.config.architecture) + " is not one of the built-in " +
                     built_in_architectures();
  }
  return error;
}

Result<JudgedConfig> judge_documents(const json& object, const json* generation, const std::string& where) {
  QUIRE_ASSIGN_OR_RETURN(JudgedConfig judged, judge(object, where + "/config.json"));
  if (generation != nullptr) {
    const std::string generation_where = where + "/generation_config.json";
    QUIRE_ASSIGN_OR_RETURN(judged.config.generation, parse_generation_config(*generation, generation_where));
    QUIRE_RETURN_IF_ERROR(
        judge_eos_tokens(judged.config.generation.eos_token_ids, judged.config.vocab_size, generation_where));
  }
  join_token_ids(judged.config.eos_token_ids, judged.config.generation.eos_token_ids);
  return judged;
}

}  // namespace

Status validate_model_config(const ModelConfig& config, const std::string& where) {
  const auto bad = [&](const std::string& what) { return invalid_argument(where + ": " + what); };
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    return bad("num_attention_heads " + std::to_string(config.num_attention_heads) +
               " is not a multiple of num_key_value_heads " + std::to_string(config.num_key_value_heads));
  }
  if (config.head_dim % 2 != 0) return bad("head_dim " + std::to_string(config.head_dim) + " must be even");
  if (config.num_attention_heads * config.head_dim > kMaxIntermediate) return bad("the attention heads are too large");
  const bool slides = std::ranges::find(config.layer_types, LayerType::kSlidingAttention) != config.layer_types.end();
  if (slides && !config.sliding_window) return bad("layer_types has sliding_attention but there is no sliding_window");
  return {};
}

void join_token_ids(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
  std::vector<int32_t> joined;
  for (const auto* list : {&std::as_const(ids), &more}) {
    for (const int32_t id : *list) {
      if (std::ranges::find(joined, id) == joined.end()) joined.push_back(id);
    }
  }
  ids = std::move(joined);
}

Result<JudgedConfig> judge_model_config(std::string_view config_text, std::string_view generation_text,
                                        const std::string& where) {
  QUIRE_ASSIGN_OR_RETURN(const json object, parse_json_object(config_text, where + "/config.json"));
  if (generation_text.empty()) return judge_documents(object, nullptr, where);
  QUIRE_ASSIGN_OR_RETURN(const json generation, parse_json_object(generation_text, where + "/generation_config.json"));
  return judge_documents(object, &generation, where);
}

Result<JudgedConfig> judge_model_config_files(const std::filesystem::path& folder) {
  QUIRE_ASSIGN_OR_RETURN(const json object, read_json_object(folder / "config.json"));
  std::error_code ignored;
  if (!std::filesystem::exists(folder / "generation_config.json", ignored)) {
    return judge_documents(object, nullptr, folder.string());
  }
  QUIRE_ASSIGN_OR_RETURN(const json generation, read_json_object(folder / "generation_config.json"));
  return judge_documents(object, &generation, folder.string());
}

}  // namespace quire
