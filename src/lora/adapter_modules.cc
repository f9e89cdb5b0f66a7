#include "lora/adapter_modules.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/printable.h"
#include "lora/adapter_tensors.h"
#include "lora/adapter_token_rows.h"
#include "lora/adapter_tying.h"
#include "lora/module_drafts.h"

namespace quire {
namespace {

/// Not so when its only tensor was a copy of another module's.
bool is_something(const AdapterModule& module) {
  return module.a != nullptr || module.bias != nullptr || module.weight != nullptr || module.token_rows != nullptr ||
         module.base_copy != nullptr;
}

class ModuleReader {
 public:
  ModuleReader(const AdapterConfig& config, const WeightSource& tensors) : config_(config), tensors_(tensors) {}

  Result<std::vector<AdapterModule>> read() {
    QUIRE_ASSIGN_OR_RETURN(drafts_, gather_module_drafts(tensors_));
    QUIRE_RETURN_IF_ERROR(judge_token_rows(config_, tensors_, drafts_));
    std::vector<bool> used(config_.modules_to_save.size());
    for (auto& [path, draft] : drafts_) {
      QUIRE_RETURN_IF_ERROR(judge_pair(draft));
      QUIRE_RETURN_IF_ERROR(judge_replacements(draft, used));
    }
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i])
        return config_.broken_promise("modules_to_save names " + quote_name(config_.modules_to_save[i], 60));
    }
    std::vector<AdapterModule> modules;
    for (auto& [path, draft] : drafts_) {
      if (is_something(draft.module)) modules.push_back(std::move(draft.module));
    }
    if (config_.ensure_weight_tying) QUIRE_RETURN_IF_ERROR(judge_weight_tying(tensors_, modules));
    return modules;
  }

 private:
  Error bad(const WeightInfo& tensor, const std::string& what) const { return bad_tensor(tensors_, tensor, what); }

  /// A and B: both there, of one rank, which is the config's, and of a module that the config adapts.
  Status judge_pair(ModuleDraft& draft) {
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

  Status judge_targeted(ModuleDraft& draft, const WeightInfo& tensor) {
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
      const ModuleDraft& draft = entry.second;
      return draft.embedding_a != nullptr && draft.embedding_b != nullptr;
    });
  }

  Status judge_rank(ModuleDraft& draft) {
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
  Status judge_replacements(ModuleDraft& draft, std::vector<bool>& used) {
    AdapterModule& module = draft.module;
    if (module.weight == nullptr && module.bias == nullptr) return {};
    const bool saved = config_.is_saved_module(draft.trained_path, used);
    if (module.weight != nullptr) {
      const bool embedding = module.path.ends_with("embed_tokens");
      if (!saved && !embedding && !is_output_head(module.path)) {
        return bad(*module.weight, "is a whole weight, but modules_to_save in adapter_config.json does not name it");
      }
      if (module.a != nullptr || module.token_rows != nullptr) {
        return bad(*module.weight, "replaces a weight that the adapter also changes in another way");
      }
      module.changes_tied_head = embedding && !saved && !head_has(drafts_, &AdapterModule::weight);
    }
    if (module.bias == nullptr) return {};
    if (!saved && config_.bias == AdapterConfig::Bias::kNone) {
      return bad(*module.bias, "is a trained bias, but bias in adapter_config.json is none");
    }
    if (module.bias->shape.size() == 1) return {};
    return bad(*module.bias, "must have one dimension, it has " + shape_text(*module.bias));
  }

  const AdapterConfig& config_;
  const WeightSource& tensors_;
  ModuleDrafts drafts_;
  MatchBudget budget_;
};

}  // namespace

Result<std::vector<AdapterModule>> read_adapter_modules(const AdapterConfig& config, const WeightSource& tensors) {
  return ModuleReader(config, tensors).read();
}

}  // namespace quire
