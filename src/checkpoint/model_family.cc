#include "checkpoint/model_family.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/printable.h"

namespace quire {
namespace {

using nlohmann::json;

// architecture, model_type, vocab, intermediate, kv heads, head_dim, positions, bos, eos, window rule, window, biases
constexpr std::array kFamilies = {
    ModelFamily{"LlamaForCausalLM", "llama", 32000, 11008, 0, 0, 2048, 1, 2, WindowRule::kNone, {}, true, true},
    ModelFamily{"MistralForCausalLM", "mistral", 32000, 14336, 8, 0, 131072, 1, 2, WindowRule::kAllLayers, 4096, false,
                false},
    ModelFamily{
        "Qwen2ForCausalLM", "qwen2", 151936, 22016, 32, 0, 32768, {}, {}, WindowRule::kQwen, 4096, false, false},
    ModelFamily{
        "Qwen3ForCausalLM", "qwen3", 151936, 22016, 32, 128, 32768, {}, {}, WindowRule::kQwen, 4096, true, false},
};

constexpr ModelFamily kGeneric{"", "", 32000, 11008, 0, 0, 2048, {}, {}, WindowRule::kQwen, {}, true, true};

// Fields of other families that change the result, each with the one value (besides null) that does not.
struct NeutralField {
  const char* key;
  double neutral;  ///< false counts as 0, true as 1
};
constexpr NeutralField kRefusedFields[] = {
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"logits_scaling", 1},
    {"logit_scale", 1},
    {"embedding_multiplier", 1},
    {"residual_multiplier", 1},
    {"attention_multiplier", 0},
    {"scale_emb", 1},
    {"scale_depth", 0},
    {"dim_model_base", 0},
    {"query_pre_attn_scalar", 0},
    {"rotary_pct", 1},
    {"rotary_emb_fraction", 1},
    {"rope_interleaved", 0},
    {"rope_interleave", 0},
    {"use_qk_norm", 0},
    {"qk_norm", 0},
    {"qk_layernorm", 0},
    {"clip_qkv", 0},
    {"num_local_experts", 0},
    {"num_experts", 0},
    {"n_routed_experts", 0},
    {"moe_intermediate_size", 0},
    {"kv_lora_rank", 0},
    {"q_lora_rank", 0},
    {"is_encoder_decoder", 0},
    {"add_cross_attention", 0},
    {"cross_attention_hidden_size", 0},
    {"alibi", 0},
    {"use_alibi", 0},
    {"use_parallel_residual", 0},
    {"parallel_attn", 0},
    {"use_mrope", 0},
    {"no_rope_layer_interval", 0},
    {"attn_temperature_tuning", 0},
    {"attention_chunk_size", 0},
    {"use_double_wide_mlp", 0},
    {"qkv_bias", 0},
    {"use_bias", 0},
    {"use_qkv_bias", 0},
    {"bias", 0},
    {"attention_out_bias", 0},
    {"lm_head_bias", 0},
    {"use_logn_attn", 0},
    {"use_dynamic_ntk", 0},
    {"head_bias", 0},
    {"swa_rope_theta", 0},
    {"attention_sink_size", 0},
    {"pruned_heads", 0},
    {"vision_config", 0},
    {"audio_config", 0},
    {"text_config", 0},
    {"no_rope_layers", 0},
    {"hidden_activation", 0},
    {"block_configs", 0},
    // Understood by some families, and refused where the family does not read them.
    {"attention_bias", 0},
    {"mlp_bias", 0},
    {"use_sliding_window", 0},
};

// Fields that do not change what the model computes at inference.
constexpr std::string_view kHarmlessFields[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_from_model_config",
    "_name_or_path",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_implementation",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "max_window_layers",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_flash_attn",
    "unk_token_id",
    "mask_token_id",
};

/// Whether a value is null, the neutral number (or boolean of that worth), or an empty collection or string.
bool is_neutral(const json& value, double neutral) {
  if (value.is_boolean()) return (value.get<bool>() ? 1.0 : 0.0) == neutral;
  if (value.is_number()) return value.get<double>() == neutral;
  return value.empty();
}

}  // namespace

const ModelFamily* find_model_family(std::string_view architecture) {
  const auto found = std::ranges::find(kFamilies, architecture, &ModelFamily::architecture);
  return found == kFamilies.end() ? nullptr : &*found;
}

const ModelFamily* find_model_family_by_type(std::string_view model_type) {
  const auto found = std::ranges::find(kFamilies, model_type, &ModelFamily::model_type);
  return found == kFamilies.end() ? nullptr : &*found;
}

const ModelFamily& generic_model_family() { return kGeneric; }

std::vector<std::string> judge_other_fields(const ModelFamily& family, JsonFields& fields) {
  std::vector<std::string> unknown;
  for (const std::string& key : fields.unread_keys()) {
    const auto* value = fields.find(key);
    const auto* neutral =
        std::ranges::find_if(kRefusedFields, [&](const auto& field) { return field.key == key; });
    if (neutral != std::end(kRefusedFields)) {
      if (value != nullptr && !is_neutral(*value, neutral->neutral)) {
        fields.fail(unsupported(fields.where() + ": field " + quote_name(key) +
                                    " changes the result and is not supported for " + std::string(family.architecture),
                                key));
      }
    } else if (value != nullptr && std::ranges::find(kHarmlessFields, key) == std::end(kHarmlessFields)) {
      unknown.push_back(key);
    }
  }
  return unknown;
}

std::string built_in_architectures() {
  std::string names;
  for (const ModelFamily& family : kFamilies) {
    if (!names.empty()) names += ", ";
    names += family.architecture;
  }
  return names;
}

}  // namespace quire
