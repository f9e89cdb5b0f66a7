#include "checkpoint/declared_fields.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/printable.h"

namespace quire {

using nlohmann::json;

namespace {

constexpr std::array kRequired = {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                                  "max_position_embeddings"};

/// Whether a declared JSON text is the value. Text that is no JSON is no value.
bool is_value(const json& value, const std::string& text) {
  const json declared = json::parse(text, nullptr, false);
  return !declared.is_discarded() && declared == value;
}

void judge_fixed(const ArchitectureConfig& declared, const ModelFamily& family, JsonFields& fields) {
  for (const auto& [key, allowed] : declared.fixed_fields) {
    const json* const value = fields.find(key);
    if (value == nullptr) continue;
    if (std::ranges::any_of(allowed, [&](const std::string& text) { return is_value(*value, text); })) continue;
    std::string choices;
    for (const std::string& text : allowed) choices += (choices.empty() ? "" : " or ") + text;
    fields.fail_value(key, choices + " for " + std::string(family.architecture));
  }
}

void judge_partial_rotary(const ArchitectureConfig& declared, const ModelFamily& family, JsonFields& fields,
                          const ModelConfig& config) {
  const double factor = config.rope.partial_rotary_factor;
  if (factor == 1.0) return;
  if (!declared.partial_rotary_factor) {
    fields.fail(
        unsupported(fields.where() + ": partial_rotary_factor is not supported for " + std::string(family.architecture),
                    "partial_rotary_factor"));
  } else if (const auto rotated = static_cast<int64_t>(static_cast<double>(config.head_dim) * factor);
             rotated < 2 || rotated % 2 != 0) {
    fields.fail(invalid_argument(fields.where() + ": partial_rotary_factor leaves " + std::to_string(rotated) + " of " +
                                     std::to_string(config.head_dim) +
                                     " features of a head to rotate, which must be even and at least 2",
                                 "partial_rotary_factor"));
  }
}

}  // namespace

Result<json> apply_declaration(const ArchitectureConfig& declared, const json& object, const std::string& where) {
  json result = object;
  for (const auto& [own, common] : declared.renamed) {
    if (!object.contains(own)) continue;
    if (object.contains(common)) {
      return invalid_argument(where + ": " + own + " and " + common + " are the same field; give one of them", own);
    }
    result[common] = object[own];
    result.erase(own);
  }
  for (const auto& [key, text] : declared.defaults) {
    if (result.contains(key)) continue;
    json value = json::parse(text, nullptr, false);
    if (value.is_discarded()) {
      return internal_error(where + ": the default " + quote_name(text) + " that is declared for " + key +
                            " is no JSON value");
    }
    result[key] = std::move(value);
  }
  for (const char* const key : kRequired) {
    if (!result.contains(key) || result[key].is_null()) {
      return invalid_argument(where + ": " + key + " is missing", key);
    }
  }
  return result;
}

ModelFamily declared_family(std::string_view architecture, const ArchitectureConfig& declared) {
  ModelFamily family = generic_model_family();
  family.architecture = architecture;
  family.model_type = declared.model_type;
  family.intermediate_size = 0;
  family.window_rule = declared.window;
  family.has_attention_bias = declared.attention_bias;
  family.has_mlp_bias = declared.mlp_bias;
  return family;
}

void judge_declared_fields(const ArchitectureConfig& declared, const ModelFamily& family, JsonFields& fields,
                           ModelConfig& config) {
  judge_partial_rotary(declared, family, fields, config);
  std::map<std::string, std::string, std::less<>> own;
  for (const std::string& key : declared.own_fields) {
    const json* const value = fields.find(key);
    if (value != nullptr) own[key] = value->dump(-1, ' ', true, json::error_handler_t::replace);
  }
  config.own_fields = OwnFields(fields.where(), std::move(own));
  judge_fixed(declared, family, fields);
  for (const std::string& key : declared.ignored_fields) fields.mark_read(key);
  std::string names;
  for (const std::string& key : judge_other_fields(family, fields)) {
    names += (names.empty() ? "" : ", ") + quote_name(key);
  }
  if (names.empty()) return;
  fields.fail(unsupported(fields.where() + ": the model " + std::string(family.architecture) +
                          " declares no field named " + names +
                          ", which might change the result; its ArchitectureConfig must list what it reads or may pass "
                          "over"));
}

}  // namespace quire
