#include "checkpoint/rope_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/printable.h"

namespace quire {
namespace {

using nlohmann::json;

// YaRN divides by the logarithm of theta.
constexpr double kMinTheta = 1.001;
constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;
constexpr int64_t kMaxOriginalPositions = int64_t{1} << 32;

/// rope_parameters may hold one dictionary per layer type; those are read only when they all agree.
const json* select_parameters(JsonFields& fields) {
  const json* parameters = fields.find("rope_parameters");
  const json* scaling = fields.find("rope_scaling");
  if (scaling != nullptr && !(scaling->is_object() && scaling->empty())) parameters = scaling;
  if (parameters == nullptr) return nullptr;
  if (!parameters->is_object()) {
    fields.fail_value(parameters == scaling ? "rope_scaling" : "rope_parameters", "an object");
    return nullptr;
  }
  if (std::ranges::none_of(*parameters, [](const json& value) { return value.is_object(); })) return parameters;
  const json& first = *parameters->begin();
  if (std::ranges::any_of(*parameters, [&](const json& value) { return value != first; })) {
    fields.fail(unsupported(fields.where() + ": rope_parameters that differ between layer types are not supported",
                            "rope_parameters"));
    return nullptr;
  }
  return &first;
}

std::optional<RopeType> parse_rope_type(const std::string& name) {
  if (name == "default") return RopeType::kDefault;
  if (name == "linear") return RopeType::kLinear;
  if (name == "dynamic") return RopeType::kDynamic;
  if (name == "yarn") return RopeType::kYarn;
  if (name == "llama3") return RopeType::kLlama3;
  return std::nullopt;
}

RopeType read_rope_type(JsonFields& rope) {
  const std::string old_name = rope.text("type", "default");
  const std::string name = rope.text("rope_type", old_name);
  const auto type = parse_rope_type(name);
  if (!type) {
    rope.fail(unsupported(rope.where() + ": rope type " + quote_name(name) +
                              " is not supported; supported are default, linear, dynamic, yarn and llama3",
                          "rope_type"));
  }
  return type.value_or(RopeType::kDefault);
}

double read_factor(JsonFields& rope, const RopeConfig& config, int64_t max_position_embeddings) {
  if (config.type == RopeType::kDefault) {
    rope.mark_read("factor");
    return 1.0;
  }
  if (config.type == RopeType::kYarn && !rope.has("factor") && config.original_max_position_embeddings > 0) {
    return static_cast<double>(max_position_embeddings) / static_cast<double>(config.original_max_position_embeddings);
  }
  if (!rope.has("factor")) rope.fail_value("factor", "a number");
  return rope.number("factor", 1.0, 1e-6, kMaxFactor);
}

void read_llama3(JsonFields& rope, RopeConfig& config) {
  for (const char* key : {"low_freq_factor", "high_freq_factor"}) {
    if (!rope.has(key)) rope.fail_value(key, "a number");
  }
  config.low_freq_factor = rope.number("low_freq_factor", 1.0, 1e-6, kMaxFactor);
  config.high_freq_factor = rope.number("high_freq_factor", 4.0, 1e-6, kMaxFactor);
  if (config.high_freq_factor <= config.low_freq_factor) {
    rope.fail_value("high_freq_factor", "larger than low_freq_factor");
  }
}

void read_yarn(JsonFields& rope, RopeConfig& config) {
  config.beta_fast = rope.number("beta_fast", 32.0, 0.0, kMaxFactor);
  config.beta_slow = rope.number("beta_slow", 1.0, 0.0, kMaxFactor);
  // transformers takes zero for "not given".
  if (config.beta_fast == 0.0) config.beta_fast = 32.0;
  if (config.beta_slow == 0.0) config.beta_slow = 1.0;
  config.attention_factor = rope.optional_number("attention_factor", 0.0, kMaxFactor);
  config.mscale = rope.optional_number("mscale", 0.0, kMaxFactor);
  config.mscale_all_dim = rope.optional_number("mscale_all_dim", 0.0, kMaxFactor);
  config.truncate = rope.boolean("truncate", true);
}

void read_original_length(JsonFields& fields, JsonFields& rope, int64_t max_position_embeddings, RopeConfig& config) {
  const bool needed = config.type == RopeType::kYarn || config.type == RopeType::kLlama3;
  const auto inner = rope.optional_integer("original_max_position_embeddings", 1, kMaxOriginalPositions);
  const auto outer = fields.optional_integer("original_max_position_embeddings", 1, kMaxOriginalPositions);
  config.original_max_position_embeddings = inner.value_or(needed ? max_position_embeddings : 0);
  if (needed && outer) config.original_max_position_embeddings = *outer;
}

void refuse_unread(JsonFields& rope) {
  rope.mark_read("finetuned");
  // Parameters of another type, left over in the file, have no effect in transformers either.
  for (const char* key : {"low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "attention_factor", "mscale",
                          "mscale_all_dim", "truncate"}) {
    rope.mark_read(key);
  }
  for (const std::string& key : rope.unread_keys()) {
    if (!rope.has(key)) continue;
    rope.fail(unsupported(rope.where() + ": field " + quote_name(key) + " is not supported", key));
  }
}

}  // namespace

RopeConfig read_rope_config(JsonFields& fields, int64_t max_position_embeddings) {
  RopeConfig config;
  const auto outer_theta = fields.optional_number("rope_theta", kMinTheta, kMaxTheta);
  const auto outer_partial = fields.optional_number("partial_rotary_factor", 0.0, 1.0);
  const json empty = json::object();
  const json* parameters = select_parameters(fields);
  JsonFields rope(parameters != nullptr ? *parameters : empty, fields.where() + ": rope_parameters");
  config.theta = rope.optional_number("rope_theta", kMinTheta, kMaxTheta).value_or(outer_theta.value_or(10000.0));
  config.partial_rotary_factor =
      rope.optional_number("partial_rotary_factor", 0.0, 1.0).value_or(outer_partial.value_or(1.0));
  config.type = read_rope_type(rope);
  read_original_length(fields, rope, max_position_embeddings, config);
  config.factor = read_factor(rope, config, max_position_embeddings);
  if (config.type == RopeType::kLlama3) read_llama3(rope, config);
  if (config.type == RopeType::kYarn) read_yarn(rope, config);
  refuse_unread(rope);
  if (const Status status = rope.status(); !status.ok()) fields.fail(status.error());
  return config;
}

}  // namespace quire
