#include "lora/adapter_modules.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "checkpoint/printable.h"
#include "lora/adapter_tensor_name.h"
#include "lora/adapter_tensors.h"
#include "lora/adapter_tying.h"

namespace quire {
namespace {

using Role = AdapterTensorRole;

/// A module while its tensors are gathered.
struct Draft {
  AdapterModule module;
  std::string trained_path;
  const WeightInfo* embedding_a = nullptr;
  const WeightInfo* embedding_b = nullptr;
};

/// Layer 2 before layer 10: digits compare as numbers.
bool in_layer_order(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const size_t begin_a = i, begin_b = j;
      while (i < a.size() && is_digit(a[i])) ++i;
      while (j < b.size() && is_digit(b[j])) ++j;
      const auto digits_a = a.substr(begin_a, i - begin_a), digits_b = b.substr(begin_b, j - begin_b);
      if (digits_a.size() != digits_b.size()) return digits_a.size() < digits_b.size();
      if (digits_a != digits_b) return digits_a < digits_b;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

struct LayerOrder {
  bool operator()(const std::string& a, const std::string& b) const { return in_layer_order(a, b); }
};

/// Not so when its only tensor was a copy of another module's.
bool is_something(const AdapterModule& module) {
  return module.a != nullptr || module.bias != nullptr || module.weight != nullptr || module.token_rows != nullptr ||
         module.base_copy != nullptr;
}

class ModuleReader {
 public:
  ModuleReader(const AdapterConfig& config, const WeightSource& tensors) : config_(config), tensors_(tensors) {}

  Result<std::vector<AdapterModule>> read() {
    QUIRE_RETURN_IF_ERROR(gather());
    QUIRE_RETURN_IF_ERROR(judge_token_rows());
    std::vector<bool> used(config_.modules_to_save.size());
    for (auto& [path, draft] : drafts_) {
      QUIRE_RETURN_IF_ERROR(judge_pair(draft));
      QUIRE_RETURN_IF_ERROR(judge_replacements(draft, used));
    }
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) return contradicts("modules_to_save names " + quote_name(config_.modules_to_save[i], 60));
    }
    std::vector<AdapterModule> modules;
    for (auto& [path, draft] : drafts_) {
      if (is_something(draft.module)) modules.push_back(std::move(draft.module));
    }
    if (config_.ensure_weight_tying) QUIRE_RETURN_IF_ERROR(judge_weight_tying(tensors_, modules));
    return modules;
  }

 private:
  Error bad(const WeightInfo& tensor, const std::string& what) const {
    return invalid_argument(tensors_.description() + ": tensor " + quote_name(tensor.name) + " " + what);
  }
  /// The config promises something that the file has no tensor for.
  Error contradicts(const std::string& what) const {
    return invalid_argument(config_.where + ": " + what + ", but the adapter's weights have no tensor for it");
  }

  Status gather() {
    std::vector<std::string> unknown;
    for (const WeightInfo& tensor : tensors_.tensors()) {
      const auto name = parse_adapter_tensor_name(tensor.name);
      if (!name) {
        unknown.push_back(quote_name(tensor.name));
        continue;
      }
      QUIRE_RETURN_IF_ERROR(check_adapter_name(tensor, name->adapter));
      if (name->role == Role::kUnused) continue;
      QUIRE_RETURN_IF_ERROR(check_tensor(tensors_, tensor));
      QUIRE_RETURN_IF_ERROR(place(tensor, *name));
    }
    if (unknown.empty()) return {};
    return unsupported(tensors_.description() +
                       " has tensors that no known form of LoRA explains: " + list_some(unknown));
  }

  /// A file of one adapter has one adapter's name in its tensors' names, if any.
  Status check_adapter_name(const WeightInfo& tensor, const std::string& adapter) {
    if (adapter.empty() || adapter == adapter_name_) return {};
    if (!adapter_name_.empty()) {
      return bad(tensor, "is of the adapter " + quote_name(adapter, 40) + ", others are of " +
                             quote_name(adapter_name_, 40) + "; save each adapter to a folder of its own");
    }
    adapter_name_ = adapter;
    return {};
  }

  Status place(const WeightInfo& tensor, const AdapterTensorName& name) {
    Draft& draft = drafts_[name.path];
    draft.module.path = name.path;
    draft.trained_path = name.trained_path;
    const WeightInfo*& slot = slot_of(draft, name.role);
    if (slot == nullptr) {
      slot = &tensor;
      return {};
    }
    // PEFT may save a trained module under two names.
    QUIRE_ASSIGN_OR_RETURN(const bool same, same_values({tensors_, *slot}, {tensors_, tensor}));
    if (same) return {};
    return bad(tensor, "and tensor " + quote_name(slot->name) + " are both for the same place, and differ");
  }

  static const WeightInfo*& slot_of(Draft& draft, Role role) {
    AdapterModule& module = draft.module;
    switch (role) {
      case Role::kLoraA:
        return module.a;
      case Role::kLoraB:
        return module.b;
      case Role::kLoraBias:
        return module.lora_bias;
      case Role::kEmbeddingA:
        return draft.embedding_a;
      case Role::kEmbeddingB:
        return draft.embedding_b;
      case Role::kMagnitude:
        return module.magnitude;
      case Role::kWeight:
        return module.weight;
      case Role::kBias:
        return module.bias;
      case Role::kTokenRows:
        return module.token_rows;
      case Role::kBaseCopy:
      case Role::kUnused:
        break;
    }
    return module.base_copy;
  }

  /// A and B: both there, of one rank, which is the config's, and of a module that the config adapts.
  Status judge_pair(Draft& draft) {
    AdapterModule& module = draft.module;
    if (draft.embedding_a != nullptr || draft.embedding_b != nullptr) {
      const WeightInfo* linear = module.a != nullptr ? module.a : module.b;
      if (linear != nullptr) return bad(*linear, "stands beside lora_embedding tensors of the same module");
      module.embedding = true;
      module.a = draft.embedding_a;
      module.b = draft.embedding_b;
    }
    if (module.a == nullptr && module.b == nullptr) return judge_no_pair(module);
    const WeightInfo& present = module.a != nullptr ? *module.a : *module.b;
    if (module.b == nullptr) return bad(present, "has no lora_B beside it");
    if (module.a == nullptr) return bad(present, "has no lora_A beside it");
    QUIRE_RETURN_IF_ERROR(judge_targeted(draft, present));
    QUIRE_RETURN_IF_ERROR(judge_rank(draft));
    QUIRE_RETURN_IF_ERROR(judge_magnitude(module));
    return judge_lora_bias(module);
  }

  Status judge_no_pair(const AdapterModule& module) const {
    for (const WeightInfo* tensor : {module.magnitude, module.lora_bias}) {
      if (tensor != nullptr) return bad(*tensor, "has no lora_A and lora_B beside it");
    }
    return {};
  }

  Status judge_targeted(Draft& draft, const WeightInfo& tensor) {
    QUIRE_ASSIGN_OR_RETURN(const auto reason, config_.why_not_targeted(draft.trained_path, budget_));
    if (!reason) return {};
    if (config_.ensure_weight_tying && is_output_head(draft.module.path) && embedding_has_pair()) {
      draft.module.needs_head = AdapterModule::Head::kTied;  // saved for the head because it is the embedding
      return {};
    }
    return bad(tensor, "is of a module that " + *reason + " in adapter_config.json: PEFT would leave it out");
  }

  bool embedding_has_pair() const {
    return std::ranges::any_of(drafts_, [](const auto& entry) {
      const Draft& draft = entry.second;
      return draft.embedding_a != nullptr && draft.embedding_b != nullptr;
    });
  }

  Status judge_rank(Draft& draft) {
    AdapterModule& module = draft.module;
    if (module.a->shape.size() != 2) return bad(*module.a, "must have two dimensions, it has " + shape_text(*module.a));
    if (module.b->shape.size() != 2) return bad(*module.b, "must have two dimensions, it has " + shape_text(*module.b));
    const int64_t rank = module.a->shape[0];
    if (module.b->shape[1] != rank) {
      return bad(*module.b, "has shape " + shape_text(*module.b) + ", which does not fit the rank " +
                                std::to_string(rank) + " of " + quote_name(module.a->name) + " " +
                                shape_text(*module.a));
    }
    QUIRE_ASSIGN_OR_RETURN(const ModuleScale expected, config_.scale_of(draft.trained_path, budget_));
    if (expected.rank != rank) {
      return bad(*module.a, "has rank " + std::to_string(rank) + " with shape " + shape_text(*module.a) + ", but " +
                                expected.rank_source + " in adapter_config.json says " + std::to_string(expected.rank));
    }
    if (!std::isfinite(expected.scale)) return bad(*module.a, "gets a scale that is no number");
    module.rank = rank;
    module.scale = expected.scale;
    return {};
  }

  Status judge_magnitude(const AdapterModule& module) const {
    if (!config_.use_dora) {
      if (module.magnitude == nullptr) return {};
      return bad(*module.magnitude, "is DoRA's, but use_dora in adapter_config.json is not true");
    }
    if (module.magnitude == nullptr) {
      return bad(*module.a, "has no lora_magnitude_vector beside it, though use_dora is true");
    }
    return check_vector(*module.magnitude, module.b->shape[0]);
  }

  Status judge_lora_bias(const AdapterModule& module) const {
    if (!config_.lora_bias) {
      if (module.lora_bias == nullptr) return {};
      return bad(*module.lora_bias, "is a bias, but lora_bias in adapter_config.json is not true");
    }
    if (module.embedding) return bad(*module.a, "is of an embedding, which cannot have lora_bias");
    if (module.lora_bias == nullptr) return bad(*module.b, "has no bias beside it, though lora_bias is true");
    return check_vector(*module.lora_bias, module.b->shape[0]);
  }

  Status check_vector(const WeightInfo& tensor, int64_t size) const {
    if (tensor.shape.size() == 1 && tensor.shape[0] == size) return {};
    return bad(tensor, "has shape " + shape_text(tensor) + ", it must be [" + std::to_string(size) + "]");
  }

  /// Whole weights and biases: of modules_to_save, of the vocabulary if it was resized, or trained biases.
  Status judge_replacements(Draft& draft, std::vector<bool>& used) {
    AdapterModule& module = draft.module;
    QUIRE_ASSIGN_OR_RETURN(bool saved, config_.is_saved_module(draft.trained_path, budget_, nullptr));
    const bool replaced = module.weight != nullptr || module.bias != nullptr;
    if (saved && replaced) {
      QUIRE_ASSIGN_OR_RETURN(saved, config_.is_saved_module(draft.trained_path, budget_, &used));
    }
    if (module.weight != nullptr) {
      const bool embedding = module.path.ends_with("embed_tokens");
      if (!saved && !embedding && !is_output_head(module.path)) {
        return bad(*module.weight, "is a whole weight, but modules_to_save in adapter_config.json does not name it");
      }
      if (module.a != nullptr || module.token_rows != nullptr) {
        return bad(*module.weight, "replaces a weight that the adapter also changes in another way");
      }
      module.changes_tied_head = embedding && !saved && !head_has(&AdapterModule::weight);
    }
    if (module.bias == nullptr) return {};
    if (!saved && config_.bias == AdapterConfig::Bias::kNone) {
      return bad(*module.bias, "is a trained bias, but bias in adapter_config.json is none");
    }
    if (module.bias->shape.size() == 1) return {};
    return bad(*module.bias, "must have one dimension, it has " + shape_text(*module.bias));
  }

  /// Whether some output head has its own tensor of a kind.
  bool head_has(const WeightInfo* AdapterModule::*kind) const {
    return std::ranges::any_of(drafts_, [&](const auto& entry) {
      return is_output_head(entry.first) && entry.second.module.*kind != nullptr;
    });
  }

  Status judge_token_rows() {
    QUIRE_RETURN_IF_ERROR(drop_copied_head_rows());
    for (auto& [path, draft] : drafts_) {
      AdapterModule& module = draft.module;
      if (module.token_rows == nullptr) continue;
      const std::vector<int64_t>* ids = config_.token_indices(draft.trained_path);
      if (ids == nullptr)
        return bad(*module.token_rows, "holds rows of tokens that trainable_token_indices does not name");
      const auto& shape = module.token_rows->shape;
      if (shape.size() != 2 || shape[0] != static_cast<int64_t>(ids->size())) {
        return bad(*module.token_rows, "has shape " + shape_text(*module.token_rows) +
                                           ", but trainable_token_indices has " + std::to_string(ids->size()) + " ids");
      }
      if (module.a != nullptr || draft.embedding_a != nullptr) {
        return bad(*module.token_rows, "replaces rows of a weight that the adapter also changes in another way");
      }
      module.token_ids = *ids;
      module.changes_tied_head = !is_output_head(path) && !head_has(&AdapterModule::token_rows);
    }
    return check_all_tokens_found();
  }

  /// Of a model whose head is tied, PEFT may save the embedding's rows under the head's name too.
  Status drop_copied_head_rows() {
    const WeightInfo* rows = nullptr;
    for (const auto& [path, draft] : drafts_) {
      if (!is_output_head(path) && draft.module.token_rows != nullptr) rows = draft.module.token_rows;
    }
    if (rows == nullptr) return {};
    for (auto& [path, draft] : drafts_) {
      const WeightInfo*& copy = draft.module.token_rows;
      if (!is_output_head(path) || copy == nullptr || config_.token_indices(draft.trained_path) != nullptr) continue;
      QUIRE_ASSIGN_OR_RETURN(const bool same, same_values({tensors_, *rows}, {tensors_, *copy}));
      if (same) copy = nullptr;
    }
    return {};
  }

  /// An entry for the head with the embedding's ids needs no tensor: a tied head follows the embedding.
  Status check_all_tokens_found() {
    for (const auto& [name, ids] : config_.trainable_tokens) {
      bool found = false;
      for (auto& [path, draft] : drafts_) {
        AdapterModule& module = draft.module;
        if (module.token_rows == nullptr) continue;
        const bool own = config_.token_indices(draft.trained_path) == &ids;
        const bool tied = module.changes_tied_head && is_output_head(name) && module.token_ids == ids;
        if (tied && !own) module.needs_head = AdapterModule::Head::kTied;
        found = found || own || tied;
      }
      if (!found)
        return contradicts("trainable_token_indices names tokens" + (name.empty() ? "" : " of " + quote_name(name)));
    }
    return {};
  }

  const AdapterConfig& config_;
  const WeightSource& tensors_;
  std::map<std::string, Draft, LayerOrder> drafts_;
  std::string adapter_name_;
  MatchBudget budget_;
};

}  // namespace

Result<std::vector<AdapterModule>> read_adapter_modules(const AdapterConfig& config, const WeightSource& tensors) {
  return ModuleReader(config, tensors).read();
}

}  // namespace quire
