// Reads adapter_config.json field by field: those that say which modules change and how.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/json_document.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/printable.h"
#include "lora/adapter_config.h"
#include "lora/adapter_config_fields.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr int64_t kMaxRank = 1 << 20;
constexpr size_t kMaxEntries = 100'000;

/// Whether a pattern has no special character but '.'.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; });
}

}  // namespace

class AdapterConfigReader {
 public:
  AdapterConfigReader(std::string_view text, const json& object, const std::string& where)
      : text_(text), object_(object), fields_(object, where), where_(where) {
    config_.where = where;
  }

  Result<AdapterConfig> read() {
    check_type();
    judge_initialization(fields_, where_);
    config_.base_model_name =
        object_.contains("base_model_name_or_path") && object_["base_model_name_or_path"].is_string()
            ? object_["base_model_name_or_path"].get<std::string>()
            : "";
    config_.rank_ = fields_.integer("r", 8, 1, kMaxRank);
    config_.alpha_ = fields_.number("lora_alpha", 8, -1e9, 1e9);
    refuse_null("r", "a rank from 1 on");
    refuse_null("lora_alpha", "a number");
    config_.rank_stabilized_ = fields_.boolean("use_rslora", false);
    config_.use_dora = fields_.boolean("use_dora", false);
    config_.lora_bias = fields_.boolean("lora_bias", false);
    config_.ensure_weight_tying = fields_.boolean("ensure_weight_tying", false);
    read_bias();
    read_selections();
    read_layers();
    config_.rank_pattern_ = pattern_values("rank_pattern", true);
    config_.alpha_pattern_ = pattern_values("alpha_pattern", false);
    read_saved_modules();
    read_trainable_tokens();
    judge_other_fields(object_, fields_, where_);
    if (config_.use_dora && config_.lora_bias) {
      fields_.fail(invalid_argument(where_ + ": use_dora and lora_bias cannot both be true", "lora_bias"));
    }
    QUIRE_RETURN_IF_ERROR(fields_.status());
    return std::move(config_);
  }

 private:
  /// A field that is left out has PEFT's default; one that is null has none in PEFT either.
  void refuse_null(std::string_view key, const std::string& expected) {
    const auto found = object_.find(key);
    if (found != object_.end() && found->is_null()) fields_.fail_value(key, expected);
  }

  void check_type() {
    const std::string type = fields_.text("peft_type", "");
    if (type == "LORA") return;
    if (type.empty()) {
      return fields_.fail(
          invalid_argument(where_ + " has no peft_type, so it is no PEFT adapter's config", "peft_type"));
    }
    fields_.fail(unsupported(
        where_ + ": peft_type " + quote_name(type, 40) + " is not supported; adapters must be LORA", "peft_type"));
  }

  void read_bias() {
    const std::string bias = fields_.text("bias", "none");
    if (bias == "all") {
      config_.bias = AdapterConfig::Bias::kAll;
    } else if (bias == "lora_only") {
      config_.bias = AdapterConfig::Bias::kLoraOnly;
    } else if (bias != "none") {
      fields_.fail_value("bias", "none, all or lora_only");
    }
  }

  std::optional<AdapterPattern> compile(std::string_view key, const std::string& text) {
    auto pattern = AdapterPattern::compile(text);
    if (pattern.ok()) return std::move(pattern).value();
    fields_.fail(unsupported(where_ + ": " + std::string(key) + " has the pattern " + quote_name(text) +
                                 ", which cannot be read: " + pattern.error().message,
                             std::string(key)));
    return std::nullopt;
  }

  std::vector<std::string> names(std::string_view key, const json& list) {
    std::vector<std::string> result;
    const bool strings = list.is_array() && list.size() <= kMaxEntries &&
                         std::ranges::all_of(list, [](const json& item) { return item.is_string(); });
    if (strings) {
      for (const json& item : list) result.push_back(item.get<std::string>());
    } else {
      fields_.fail_value(key, "a list of names");
    }
    return result;
  }

  std::optional<ModuleSelection> selection(std::string_view key) {
    const json* value = fields_.find(key);
    if (value == nullptr) return std::nullopt;
    ModuleSelection selection;
    if (value->is_string()) {
      selection.pattern = compile(key, value->get<std::string>());
    } else {
      selection.names = names(key, *value);
    }
    return selection;
  }

  void read_selections() {
    const json* targets = fields_.find("target_modules");
    std::string shorthand = targets != nullptr && targets->is_string() ? targets->get<std::string>() : "";
    std::ranges::transform(shorthand, shorthand.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (shorthand != "all-linear") config_.target_modules_ = selection("target_modules");
    // An empty exclude_modules, string or list, excludes nothing.
    const auto excluded = object_.find("exclude_modules");
    fields_.mark_read("exclude_modules");
    if (excluded != object_.end() && !is_off(*excluded)) {
      config_.exclude_modules_ = selection("exclude_modules").value_or(ModuleSelection());
    }
  }

  void read_layers() {
    const json* layers = fields_.find("layers_to_transform");
    const json* patterns = fields_.find("layers_pattern");
    if (layers != nullptr) config_.layers_to_transform_ = integers("layers_to_transform", *layers);
    if (patterns != nullptr && !patterns->empty()) {
      const std::vector<std::string> texts =
          patterns->is_string() ? std::vector{patterns->get<std::string>()} : names("layers_pattern", *patterns);
      for (const std::string& text : texts) {
        if (text.empty()) continue;
        if (auto pattern = compile("layers_pattern", "(?:.*\\.)?(?:" + text + ")")) {
          config_.layers_pattern_.push_back(std::move(*pattern));
        }
      }
    }
    const bool by_pattern = config_.target_modules_ && config_.target_modules_->pattern;
    if (by_pattern && !config_.layers_to_transform_.empty()) {
      fields_.fail(invalid_argument(where_ + ": layers_to_transform cannot stand beside a target_modules pattern",
                                    "layers_to_transform"));
    }
  }

  std::vector<int64_t> integers(std::string_view key, const json& value) {
    std::vector<int64_t> result;
    const json list = value.is_array() ? value : json::array({value});
    for (const json& item : list) {
      if (!item.is_number_integer() || item.get<double>() < 0 || item.get<double>() > INT32_MAX) {
        fields_.fail_value(key, "a number or a list of numbers that are not negative");
        return {};
      }
      result.push_back(item.get<int64_t>());
    }
    return result;
  }

  /// The entries in the order of the file: the first match counts.
  std::vector<PatternValue> pattern_values(std::string_view key, bool is_rank) {
    std::vector<PatternValue> values;
    const json* value = fields_.find(key);
    if (value == nullptr) return values;
    if (!value->is_object() || value->size() > kMaxEntries) {
      fields_.fail_value(key, "an object of patterns and numbers");
      return values;
    }
    const auto ordered = nlohmann::ordered_json::parse(text_);  // checked before: depth and duplicate keys
    for (const auto& [text, number] : ordered[std::string(key)].items()) {
      const double amount = number.is_number() ? number.get<double>() : std::nan("");
      const bool valid =
          is_rank ? amount >= 1 && amount <= kMaxRank && amount == std::floor(amount) : std::abs(amount) <= 1e9;
      if (!valid) {
        fields_.fail(invalid_argument(where_ + ": " + std::string(key) + " of " + quote_name(text) + " must be " +
                                          (is_rank ? "a rank from 1 on" : "a number"),
                                      std::string(key)));
        return values;
      }
      // As PEFT composes it: the key may be the path's end, and alternatives in it need no group.
      std::optional<AdapterPattern> pattern;
      if (!is_plain(text)) {
        pattern = compile(key, "(.*\\.)?(" + text + ")");
        if (!pattern) return values;
      }
      values.push_back({text, std::move(pattern), amount});
    }
    return values;
  }

  void read_saved_modules() {
    const json* value = fields_.find("modules_to_save");
    if (value == nullptr) return;
    config_.modules_to_save = names("modules_to_save", *value);
    for (const std::string& name : config_.modules_to_save) {
      auto pattern = compile("modules_to_save", "(^|.*\\.)" + name + "($|\\..*)");
      if (!pattern) return;
      config_.saved_patterns_.push_back(std::move(*pattern));
    }
  }

  void read_trainable_tokens() {
    const json* value = fields_.find("trainable_token_indices");
    if (value == nullptr) return;
    if (value->is_array()) {
      add_tokens("", *value);
    } else if (value->is_object()) {
      for (const auto& [name, ids] : value->items()) {
        if (name.empty()) return fields_.fail_value("trainable_token_indices", "an object of module names");
        add_tokens(name, ids);
      }
    } else {
      fields_.fail_value("trainable_token_indices", "a list of token ids or an object of such lists");
    }
  }

  void add_tokens(const std::string& name, const json& list) {
    std::vector<int64_t> ids;
    if (list.is_array()) {
      ids = integers("trainable_token_indices", list);
    } else {
      fields_.fail_value("trainable_token_indices", "a list of token ids or an object of such lists");
    }
    if (std::set<int64_t>(ids.begin(), ids.end()).size() != ids.size()) {
      fields_.fail(
          invalid_argument(where_ + ": trainable_token_indices has a token id twice", "trainable_token_indices"));
    }
    if (!ids.empty()) config_.trainable_tokens.emplace(name, std::move(ids));
  }

  std::string_view text_;
  const json& object_;
  JsonFields fields_;
  const std::string& where_;
  AdapterConfig config_;
};

Result<AdapterConfig> AdapterConfig::parse(std::string_view text, const std::string& where) {
  QUIRE_ASSIGN_OR_RETURN(const json object, parse_json_object(text, where));
  return AdapterConfigReader(text, object, where).read();
}

}  // namespace quire
