#include "lora/adapter_token_rows.h"

#include "checkpoint/printable.h"
#include "lora/adapter_tensors.h"

namespace quire {
namespace {

class TokenRows {
 public:
  TokenRows(const AdapterConfig& config, const WeightSource& tensors, ModuleDrafts& drafts)
      : config_(config), tensors_(tensors), drafts_(drafts) {}

  Status run() {
    QUIRE_RETURN_IF_ERROR(drop_copied_head_rows());
    for (auto& [path, draft] : drafts_) {
      AdapterModule& module = draft.module;
      if (module.token_rows == nullptr) continue;
      const std::vector<int64_t>* ids = config_.token_indices(draft.trained_path);
      if (ids == nullptr)
        return bad_tensor(tensors_, *module.token_rows,
                          "holds rows of tokens that trainable_token_indices does not name");
      const auto& shape = module.token_rows->shape;
      if (shape.size() != 2 || shape[0] != static_cast<int64_t>(ids->size())) {
        return bad_tensor(tensors_, *module.token_rows,
                          "has shape " + shape_text(*module.token_rows) + ", but trainable_token_indices has " +
                              std::to_string(ids->size()) + " ids");
      }
      if (module.a != nullptr || draft.embedding_a != nullptr) {
        return bad_tensor(tensors_, *module.token_rows,
                          "replaces rows of a weight that the adapter also changes in another way");
      }
      module.token_ids = *ids;
      module.changes_tied_head = !is_output_head(path) && !head_has(drafts_, &AdapterModule::token_rows);
    }
    return check_all_tokens_found();
  }

 private:
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
        return config_.broken_promise("trainable_token_indices names tokens" +
                                      (name.empty() ? "" : " of " + quote_name(name)));
    }
    return {};
  }

  const AdapterConfig& config_;
  const WeightSource& tensors_;
  ModuleDrafts& drafts_;
};

}  // namespace

Status judge_token_rows(const AdapterConfig& config, const WeightSource& tensors, ModuleDrafts& drafts) {
  return TokenRows(config, tensors, drafts).run();
}

}  // namespace quire
