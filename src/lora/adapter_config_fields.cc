#include "lora/adapter_config_fields.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "checkpoint/printable.h"

namespace quire {
namespace {

using nlohmann::json;

/// Fields that say how the adapter was trained or for whom, whatever their value: the weights hold their effect.
/// velora_config compresses activations in the backward pass only.
constexpr std::string_view kHarmless[] = {
    "auto_mapping",   "base_model_name_or_path", "corda_config",   "eva_config",
    "fan_in_fan_out", "inference_mode",          "loftq_config",   "lora_dropout",
    "lora_ga_config", "megatron_core",           "merge_weights",  "peft_version",
    "revision",       "qalora_group_size",       "runtime_config", "task_type",
    "velora_config",
};

/// Fields that change what an adapter computes in a way that is not built, and why, unless null, false or empty.
struct Refused {
  std::string_view key, why;
};
constexpr Refused kRefused[] = {
    {"alora_invocation_tokens", "activated LoRA changes weights in the middle of a prompt"},
    {"arrow_config", "Arrow routes between adapters"},
    {"kasa_config", "KaSA changes the base weights and adds a diagonal"},
    {"layer_replication", "the adapter is for a model with repeated layers"},
    {"megatron_config", "the adapter is for Megatron's layers"},
    {"monteclora_config", "MonteCLoRA keeps a sampler beside the weights"},
    {"target_parameters", "the adapter changes parameters that are no linear or embedding"},
    {"use_bdlora", "BD-LoRA's factors are block-diagonal"},
    {"use_qalora", "QA-LoRA pools the input and needs a GPTQ base"},
};

}  // namespace

bool is_off(const json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  return value.is_null() || value.empty() || (value.is_string() && value.get<std::string>().empty());
}

void judge_initialization(JsonFields& fields, const std::string& where) {
  const json* value = fields.find("init_lora_weights");
  if (value == nullptr || value->is_boolean()) return;
  if (!value->is_string()) return fields.fail_value("init_lora_weights", "true, false or a name");
  std::string name = value->get<std::string>();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kKnown[] = {"gaussian", "eva", "orthogonal", "mica"};
  if (std::ranges::find(kKnown, name) != std::end(kKnown)) return;
  constexpr std::string_view kBaseChanging[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
  const bool changes_base =
      std::ranges::any_of(kBaseChanging, [&](std::string_view begin) { return name.starts_with(begin); });
  fields.fail(unsupported(
      where + ": init_lora_weights " + quote_name(name, 40) +
          (changes_base ? " changed the base weights before training; save the adapter with PEFT's "
                          "save_pretrained(..., path_initial_model_for_weight_conversion=...) so that it fits the "
                          "original base"
                        : " is not known"),
      "init_lora_weights"));
}

void judge_other_fields(const json& object, JsonFields& fields, const std::string& where) {
  for (const std::string_view key : kHarmless) fields.mark_read(key);
  for (const auto& [key, why] : kRefused) {
    const json* value = fields.find(key);
    if (value == nullptr || is_off(*value)) continue;
    fields.fail(
        unsupported(where + ": " + std::string(key) + " is not supported: " + std::string(why), std::string(key)));
  }
  for (const std::string& key : fields.unread_keys()) {
    if (is_off(object[key])) continue;
    fields.fail(unsupported(where + " has the field " + quote_name(key, 60) +
                                ", which is not known and may change results; remove it if it does not",
                            key));
  }
}

}  // namespace quire
