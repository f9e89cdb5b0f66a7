// adapter_config.json as a checked struct. Every field that PEFT's LoRA knows is used, harmless for results, or refused
// by name where its value changes results.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lora/adapter_pattern.h"

namespace quire {

/// target_modules or exclude_modules: names, or one regular expression that must match a module's whole path.
struct ModuleSelection {
  std::vector<std::string> names;         ///< a path equals one, or ends in "." and one
  std::optional<AdapterPattern> pattern;  ///< instead of names
};

/// One entry of rank_pattern or alpha_pattern.
struct PatternValue {
  std::string key;                        ///< as written
  std::optional<AdapterPattern> pattern;  ///< none: the key has no special characters but '.'
  double value = 0;
};

/// What a config says of one module's low-rank pair.
struct ModuleScale {
  int64_t rank = 0;
  float scale = 0;          ///< alpha / rank, or alpha / sqrt(rank) with use_rslora
  std::string rank_source;  ///< "r" or the key of rank_pattern, for messages
};

/// Whether a path's last component names an output head.
bool is_output_head(std::string_view path);

/// Paths here are modules of the model as it was trained: tensor names without "base_model.model.".
class AdapterConfig {
 public:
  enum class Bias : uint8_t { kNone, kAll, kLoraOnly };
  using TokenIndices = std::map<std::string, std::vector<int64_t>>;

  /// The Error of a config that promises something that the file has no tensor for.
  Error broken_promise(const std::string& what) const;

  /// Judges the text of adapter_config.json; `where` (its path) begins every message.
  static Result<AdapterConfig> parse(std::string_view text, const std::string& where);

  /// The rank and scale of a module's pair: the first key of rank_pattern (alpha_pattern) that matches the path's end,
  /// else r (lora_alpha).
  Result<ModuleScale> scale_of(const std::string& path, MatchBudget& budget) const;

  /// Why PEFT would not adapt the module at `path`, if it would not: the rest of a sentence that begins "the module".
  /// It is not in target_modules, or excluded, or in modules_to_save, or outside layers_to_transform.
  Result<std::optional<std::string>> why_not_targeted(const std::string& path, MatchBudget& budget) const;

  /// Whether the module, or one that it lies in, is in modules_to_save: an entry is any end of a path, so that "norm"
  /// has "input_layernorm" saved too. `used` gets the entries that match.
  bool is_saved_module(std::string_view path, std::vector<bool>& used) const;

  /// The ids of trainable_token_indices for the module at `path`, or nullptr. A list is for the embedding, not the
  /// head.
  const std::vector<int64_t>* token_indices(const std::string& path) const;

  std::string base_model_name;
  Bias bias = Bias::kNone;
  bool use_dora = false;
  bool lora_bias = false;
  bool ensure_weight_tying = false;  ///< on a base that ties them, the embedding's change is the head's too
  std::vector<std::string> modules_to_save;
  TokenIndices trainable_tokens;  ///< by module name; a plain list stands under ""
  std::string where;

 private:
  friend class AdapterConfigReader;

  /// Whether PEFT leaves the module to modules_to_save when it looks for targets: by another rule than the one by which
  /// it saves, since it matches whole components of the path there.
  Result<bool> is_left_to_saving(const std::string& path, MatchBudget& budget) const;

  int64_t rank_ = 8;
  double alpha_ = 8;
  bool rank_stabilized_ = false;
  std::vector<PatternValue> rank_pattern_, alpha_pattern_;
  std::optional<ModuleSelection> target_modules_;  ///< none: any
  ModuleSelection exclude_modules_;
  std::vector<AdapterPattern> saved_patterns_;  ///< one for each of modules_to_save
  std::vector<int64_t> layers_to_transform_;
  std::vector<AdapterPattern> layers_pattern_;
};

}  // namespace quire
