#include <algorithm>
#include <map>

#include "checkpoint/printable.h"
#include "lora/adapter_config.h"
#include "lora/adapter_merge.h"

namespace quire {
namespace {

constexpr std::string_view kHeadWeight = "lm_head.weight";

/// Whether it changes a weight, not only a bias.
bool changes_weight(const AdapterModule& module) {
  return module.a != nullptr || module.weight != nullptr || module.token_rows != nullptr;
}

class MergePlanner {
 public:
  MergePlanner(const AdapterFiles& files, const AdapterBase& base) : files_(files), base_(base) {}

  Result<MergePlan> make() {
    QUIRE_RETURN_IF_ERROR(check_adapter_fit(files_, base_));
    QUIRE_RETURN_IF_ERROR(check_base_copies(files_, base_));
    for (const AdapterModule& module : files_.modules()) {
      if (module.lora_bias != nullptr && base_.bias(module.path) == nullptr) {
        return unsupported(files_.tensors().description() + ": tensor " + quote_name(module.lora_bias->name) +
                           " is a bias, which cannot be merged: " + quote_name(module.path) +
                           " has none in the base model");
      }
      (is_output_head(module.path) && base_.tied_head() ? tied_head_ : by_path_[module.path]) = &module;
    }
    plan_tied_head();
    for (const WeightInfo& weight : base_.tensors().tensors()) add(weight);
    if (plan_.unties_head) {
      MergedTensor head = merged(*base_.embedding(), head_change_);
      head.out.name = kHeadWeight;
      plan_.tensors.push_back(std::move(head));
    }
    return std::move(plan_);
  }

 private:
  /// With a tied base: whether the head stays the embedding, and if not, what changes it.
  void plan_tied_head() {
    if (!base_.tied_head()) return;
    const AdapterModule* embedding = change_of(*base_.embedding());
    const bool embedding_changes = embedding != nullptr && changes_weight(*embedding);
    const bool head_changes = tied_head_ != nullptr && changes_weight(*tied_head_);
    const bool together = embedding_changes && embedding->changes_tied_head;
    plan_.unties_head = head_changes || (embedding_changes && !together);
    if (head_changes) head_change_ = tied_head_;
  }

  const AdapterModule* change_of(const WeightInfo& weight) const {
    const size_t dot = weight.name.rfind('.');
    const auto found = by_path_.find(weight.name.substr(0, dot));
    return dot == std::string::npos || found == by_path_.end() ? nullptr : found->second;
  }

  MergedTensor merged(const WeightInfo& weight, const AdapterModule* module) const {
    MergedTensor tensor;
    tensor.out = {weight.name, weight.stored_type, weight.shape, weight.stored_bytes};
    tensor.base = &weight;
    tensor.is_bias = weight.name.ends_with(".bias");
    const bool changes =
        module != nullptr && (tensor.is_bias ? module->bias != nullptr || module->lora_bias != nullptr
                                             : weight.name.ends_with(".weight") && changes_weight(*module));
    tensor.module = changes ? module : nullptr;
    return tensor;
  }

  void add(const WeightInfo& weight) {
    if (base_.tied_head() && weight.name == kHeadWeight) return;
    plan_.tensors.push_back(merged(weight, change_of(weight)));
  }

  const AdapterFiles& files_;
  const AdapterBase& base_;
  std::map<std::string, const AdapterModule*> by_path_;
  const AdapterModule* tied_head_ = nullptr;
  const AdapterModule* head_change_ = nullptr;
  MergePlan plan_;
};

}  // namespace

Result<MergePlan> plan_merge(const AdapterFiles& files, const AdapterBase& base) {
  return MergePlanner(files, base).make();
}

}  // namespace quire
