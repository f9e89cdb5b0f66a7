// A PEFT adapter as its files hold it: which modules of the base model it changes, and how. Says nothing of layers,
// ranks or kernels; LoraAdapter makes those from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/weight_source.h"

namespace quire {

/// What an adapter does to one module of the base model. Tensors are of AdapterFiles::tensors(); nullptr where the
/// adapter has none. With W the base weight [out, in], the module computes
///   y = g * (W x + scale * (B (A x) + lora_bias)) + b,
/// g = magnitude / ||W + scale * B A|| by output row with DoRA, else 1. Of an embedding W is [vocabulary, hidden],
/// token t's row is g * (W[t] + scale * B A[:, t]), and DoRA's norms are those of the columns, over the whole
/// vocabulary.
struct AdapterModule {
  std::string path;  ///< as the base checkpoint names the module: "model.layers.0.self_attn.q_proj", "lm_head"
  int64_t rank = 0;  ///< of `a` and `b`; 0 without them
  float scale = 0;   ///< alpha / rank, or alpha / sqrt(rank) with rsLoRA

  const WeightInfo* a = nullptr;           ///< [rank, in]; of an embedding [rank, vocabulary]
  const WeightInfo* b = nullptr;           ///< [out, rank]; of an embedding [hidden, rank]
  const WeightInfo* magnitude = nullptr;   ///< DoRA: one value for each output; of an embedding [hidden]
  const WeightInfo* lora_bias = nullptr;   ///< bias of `b`, scaled and added with the delta (lora_bias=true): [out]
  const WeightInfo* bias = nullptr;        ///< replaces the base module's bias (bias=all or lora_only): [out]
  const WeightInfo* weight = nullptr;      ///< replaces the base module's whole weight (modules_to_save)
  const WeightInfo* token_rows = nullptr;  ///< trainable tokens: rows that replace those of `token_ids`
  std::vector<int64_t> token_ids;
  /// A copy of the base weight as it was in training: the base must equal it. A module may have nothing else: then the
  /// adapter leaves it as it is.
  const WeightInfo* base_copy = nullptr;
  bool embedding = false;  ///< `a` and `b` are those of an embedding
  /// Of the embedding's `weight` or `token_rows`: a head that the base ties to the embedding changes with it. In all
  /// other cases a tied head keeps the base weight when only the embedding changes, as in PEFT.
  bool changes_tied_head = false;
  /// What kind of head the base model must have, where that matters: one that is tied to the embedding, or its own.
  enum class Head : uint8_t { kAny, kTied, kOwn };
  Head needs_head = Head::kAny;

  /// Whether it does more than carry a copy of the base weight.
  bool changes_something() const {
    return a != nullptr || bias != nullptr || weight != nullptr || token_rows != nullptr;
  }
  /// Those that it has.
  std::vector<const WeightInfo*> tensors() const;
};

/// The files of one adapter, opened and judged: every field that changes results is read or refused by name, every
/// tensor belongs to a module. Tensors are held in memory while this lives. Immutable; safe to read from several
/// threads.
class AdapterFiles {
 public:
  /// Opens a PEFT folder (adapter_config.json with adapter_model.safetensors or its shards). Errors are one sentence
  /// that names the path and the field or tensor.
  static Result<std::shared_ptr<const AdapterFiles>> open(const std::filesystem::path& folder);
  /// The same from the text of adapter_config.json, which `config_where` stands for in messages, and opened tensors.
  static Result<std::shared_ptr<const AdapterFiles>> parse(std::string_view config_text,
                                                           const std::string& config_where,
                                                           std::unique_ptr<WeightSource> tensors);

  const std::filesystem::path& folder() const { return folder_; }
  const std::string& base_model_name() const { return base_model_name_; }
  /// What parse() was given.
  const std::string& config_text() const { return config_text_; }
  const std::string& config_where() const { return config_where_; }
  /// One for each path, layer by layer.
  const std::vector<AdapterModule>& modules() const { return modules_; }
  const WeightSource& tensors() const { return *tensors_; }
  int64_t max_rank() const;
  /// Bytes of all tensors as stored.
  int64_t stored_bytes() const;

 private:
  AdapterFiles() = default;

  std::filesystem::path folder_;
  std::string base_model_name_;
  std::string config_text_;
  std::string config_where_;
  std::vector<AdapterModule> modules_;
  std::unique_ptr<WeightSource> tensors_;
};

}  // namespace quire
