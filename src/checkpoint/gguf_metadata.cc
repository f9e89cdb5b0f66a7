#include "checkpoint/gguf_metadata.h"

#include <algorithm>

namespace quire {
namespace {

/// A key that changes what a model computes, and the one value that does not.
struct NeutralKey {
  std::string_view key;
  double neutral;
};
constexpr NeutralKey kRefusedKeys[] = {
    {"expert_count", 0},
    {"expert_used_count", 0},
    {"expert_shared_count", 0},
    {"expert_group_count", 0},
    {"expert_group_used_count", 0},
    {"expert_feed_forward_length", 0},
    {"expert_shared_feed_forward_length", 0},
    {"expert_chunk_feed_forward_length", 0},
    {"expert_weights_scale", 0},
    {"expert_weights_norm", 0},
    {"expert_gating_func", 0},
    {"moe_every_n_layers", 0},
    {"interleave_moe_layer_step", 0},
    {"nextn_predict_layers", 0},
    {"n_deepstack_layers", 0},
    {"use_parallel_residual", 0},
    {"embedding_length_out", 0},
    {"embedding_length_per_layer_input", 0},
    {"logit_scale", 1},
    {"residual_scale", 1},
    {"embedding_scale", 1},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"router_logit_softcapping", 0},
    {"swiglu_clamp_exp", 0},
    {"swiglu_clamp_shexp", 0},
    {"activation_sparsity_scale", 0},
    {"swin_norm", 0},
    {"pooling_type", 0},
    {"full_attention_interval", 0},
    {"attention.causal", 1},
    {"attention.max_alibi_bias", 0},
    {"attention.clamp_kqv", 0},
    {"attention.scale", 0},
    {"attention.output_scale", 1},
    {"attention.temperature_length", 0},
    {"attention.temperature_scale", 0},
    {"attention.q_lora_rank", 0},
    {"attention.kv_lora_rank", 0},
    {"attention.key_length_mla", 0},
    {"attention.value_length_mla", 0},
    {"attention.key_length_swa", 0},
    {"attention.value_length_swa", 0},
    {"attention.shared_kv_layers", 0},
    {"attention.sliding_window_pattern", 0},
    {"attention.relative_buckets_count", 0},
    {"rope.dimension_count_swa", 0},
    {"rope.dimension_sections", 0},
    {"rope.freq_base_swa", 0},
    {"rope.scaling.alpha", 0},
    {"rope.scaling.attn_factor", 1},
    {"rope.scaling.yarn_attn_factor", 1},
    {"rope.scaling.yarn_log_multiplier", 0},
};

constexpr std::string_view kHarmlessKeys[] = {
    "vocab_size",
    "rope.scaling.finetuned",
    // Left over in the file where the type of scaling does not read them.
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor",
};

}  // namespace

std::optional<int64_t> GgufMetadata::integer(const std::string& key, int64_t min, int64_t max) {
  const auto value = find<int64_t>(key);
  if (value && (*value < min || *value > max)) {
    fail(invalid_argument(file_.description() + ": " + prefix_ + key + " must be from " + std::to_string(min) + " to " +
                          std::to_string(max) + ", it is " + std::to_string(*value)));
    return std::nullopt;
  }
  return value;
}

int64_t GgufMetadata::required(const std::string& key, int64_t max) {
  const auto value = integer(key, 1, max);
  if (!value) fail(invalid_argument(file_.description() + " lacks a valid " + prefix_ + key));
  return value.value_or(1);
}

std::optional<double> GgufMetadata::number(const std::string& key, double min, double max) {
  const auto value = find<double>(key);
  if (value && !(*value >= min && *value <= max)) {
    fail(invalid_argument(file_.description() + ": " + prefix_ + key + " is out of range"));
    return std::nullopt;
  }
  return value;
}

void GgufMetadata::refuse(const std::string& key, const std::string& why) {
  fail(unsupported(file_.description() + ": " + prefix_ + key + " " + why));
}

Status GgufMetadata::status() const {
  if (error_) return *error_;
  return {};
}

std::vector<std::string> GgufMetadata::unread_keys() const {
  std::vector<std::string> keys;
  for (const std::string_view key : file_.keys()) {
    if (!key.starts_with(prefix_)) continue;
    std::string name(key.substr(prefix_.size()));
    if (!read_.contains(name)) keys.push_back(std::move(name));
  }
  return keys;
}

bool GgufMetadata::is_neutral(const std::string& key, double neutral) const {
  const std::string name = prefix_ + key;
  if (const auto value = file_.find<double>(name); value.ok()) return !*value || **value == neutral;
  if (const auto value = file_.find<bool>(name); value.ok()) return (**value ? 1.0 : 0.0) == neutral;
  if (const auto value = file_.find<std::string_view>(name); value.ok()) return (*value)->empty();
  if (const auto list = file_.find<std::vector<double>>(name); list.ok()) {
    return std::ranges::all_of(**list, [&](double value) { return value == neutral; });
  }
  return false;
}

std::vector<std::string> judge_other_metadata(GgufMetadata& metadata) {
  std::vector<std::string> unknown;
  for (const std::string& key : metadata.unread_keys()) {
    const auto* neutral = std::ranges::find(kRefusedKeys, std::string_view(key), &NeutralKey::key);
    if (neutral != std::end(kRefusedKeys)) {
      if (!metadata.is_neutral(key, neutral->neutral)) {
        metadata.refuse(key, "changes the result and is not supported");
      }
    } else if (std::ranges::find(kHarmlessKeys, key) == std::end(kHarmlessKeys)) {
      unknown.push_back(key);
    }
  }
  return unknown;
}

}  // namespace quire
