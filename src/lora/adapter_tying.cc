#include "lora/adapter_tying.h"

#include <algorithm>
#include <vector>

#include "checkpoint/printable.h"
#include "lora/adapter_config.h"
#include "lora/adapter_tensors.h"

namespace quire {
namespace {

using Head = AdapterModule::Head;

/// Whether the head's pair is the embedding's transposed, its weight the same, and its rows those of the same tokens.
Result<bool> change_alike(const WeightSource& tensors, const AdapterModule& embedding, const AdapterModule& head) {
  const auto both = [&](const WeightInfo* a, const WeightInfo* b, auto&& same) -> Result<bool> {
    if (a == nullptr || b == nullptr) return a == b;
    return same(SourcedTensor{tensors, *a}, SourcedTensor{tensors, *b});
  };
  const auto equal = [](const SourcedTensor& a, const SourcedTensor& b) { return same_values(a, b); };
  const auto transposed = [](const SourcedTensor& a, const SourcedTensor& b) { return is_transpose(a, b); };
  QUIRE_ASSIGN_OR_RETURN(const bool same_a, both(embedding.a, head.b, transposed));
  QUIRE_ASSIGN_OR_RETURN(const bool same_b, both(embedding.b, head.a, transposed));
  QUIRE_ASSIGN_OR_RETURN(const bool same_weight, both(embedding.weight, head.weight, equal));
  QUIRE_ASSIGN_OR_RETURN(const bool same_rows, both(embedding.token_rows, head.token_rows, equal));
  return same_a && same_b && same_weight && same_rows && embedding.token_ids == head.token_ids;
}

/// Whether it changes the weight of which an embedding and a tied head are two uses.
bool changes_weight(const AdapterModule* module) {
  return module != nullptr && (module->a != nullptr || module->weight != nullptr);
}

}  // namespace

Status judge_weight_tying(const WeightSource& tensors, std::span<AdapterModule> modules) {
  AdapterModule* embedding = nullptr;
  AdapterModule* head = nullptr;
  for (AdapterModule& module : modules) {
    if (module.path.ends_with("embed_tokens")) embedding = &module;
    if (is_output_head(module.path)) head = &module;
  }
  if (embedding != nullptr && embedding->changes_tied_head) return {};
  const bool rows_of_both = embedding != nullptr && embedding->token_rows != nullptr && head != nullptr;
  if (!changes_weight(embedding) && !changes_weight(head) && !rows_of_both) return {};
  bool alike = false;
  if (embedding != nullptr && head != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(alike, change_alike(tensors, *embedding, *head));
  }
  if (alike) return {};
  if (head != nullptr && head->needs_head == Head::kTied) {
    return invalid_argument(tensors.description() + ": the tensors of " + quote_name(head->path) +
                            " are not those of the embedding, though ensure_weight_tying in adapter_config.json is "
                            "true and target_modules has the embedding alone");
  }
  (changes_weight(head) ? head : embedding)->needs_head = Head::kOwn;
  return {};
}

Status check_needs_head(const std::string& where, std::span<const AdapterModule> modules, bool head_is_tied) {
  const auto changed_head = std::ranges::find_if(modules, [](const AdapterModule& module) {
    return is_output_head(module.path) && (changes_weight(&module) || module.token_rows != nullptr);
  });
  for (const AdapterModule& module : modules) {
    if (module.changes_tied_head && head_is_tied && changed_head != modules.end()) {
      return unsupported(where + ": it replaces weights of " + quote_name(module.path) +
                         ", which are this model's head too, and changes " + quote_name(changed_head->path) +
                         " beside that; both together are not supported");
    }
    if (module.needs_head == Head::kTied && !head_is_tied) {
      return invalid_argument(where + ": it changes " + quote_name(module.path) +
                              " for a model whose head is its embedding (ensure_weight_tying or "
                              "trainable_token_indices in adapter_config.json), but this model has a head of its own");
    }
    if (module.needs_head == Head::kOwn && head_is_tied) {
      return invalid_argument(where +
                              ": ensure_weight_tying in adapter_config.json is true and this model's head is "
                              "its embedding, so both must change alike, but the adapter changes " +
                              quote_name(module.path) +
                              " in a way of its own; it was trained on a model with a head of its own");
    }
  }
  return {};
}

}  // namespace quire
