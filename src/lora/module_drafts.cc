#include "lora/module_drafts.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "checkpoint/printable.h"
#include "lora/adapter_config.h"
#include "lora/adapter_tensor_name.h"
#include "lora/adapter_tensors.h"

namespace quire {
namespace {

using Role = AdapterTensorRole;

class Gatherer {
 public:
  explicit Gatherer(const WeightSource& tensors) : tensors_(tensors) {}

  Result<ModuleDrafts> gather() {
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
    if (unknown.empty()) return std::move(drafts_);
    return unsupported(tensors_.description() +
                       " has tensors that no known form of LoRA explains: " + list_some(unknown));
  }

 private:
  /// A file of one adapter has one adapter's name in its tensors' names, if any.
  Status check_adapter_name(const WeightInfo& tensor, const std::string& adapter) {
    if (adapter.empty() || adapter == adapter_name_) return {};
    if (!adapter_name_.empty()) {
      return bad_tensor(tensors_, tensor,
                        "is of the adapter " + quote_name(adapter, 40) + ", others are of " +
                            quote_name(adapter_name_, 40) + "; save each adapter to a folder of its own");
    }
    adapter_name_ = adapter;
    return {};
  }

  Status place(const WeightInfo& tensor, const AdapterTensorName& name) {
    ModuleDraft& draft = drafts_[name.path];
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
    return bad_tensor(tensors_, tensor,
                      "and tensor " + quote_name(slot->name) + " are both for the same place, and differ");
  }

  static const WeightInfo*& slot_of(ModuleDraft& draft, Role role) {
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

  const WeightSource& tensors_;
  ModuleDrafts drafts_;
  std::string adapter_name_;
};

}  // namespace

bool LayerOrder::operator()(const std::string& a, const std::string& b) const {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const size_t begin_a = i, begin_b = j;
      while (i < a.size() && is_digit(a[i])) ++i;
      while (j < b.size() && is_digit(b[j])) ++j;
      const std::string digits_a = a.substr(begin_a, i - begin_a), digits_b = b.substr(begin_b, j - begin_b);
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

Result<ModuleDrafts> gather_module_drafts(const WeightSource& tensors) { return Gatherer(tensors).gather(); }

bool head_has(const ModuleDrafts& drafts, const WeightInfo* AdapterModule::*kind) {
  return std::ranges::any_of(
      drafts, [&](const auto& entry) { return is_output_head(entry.first) && entry.second.module.*kind != nullptr; });
}

}  // namespace quire
