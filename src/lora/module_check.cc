#include "lora/module_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpoint/printable.h"
#include "lora/adapter_config.h"
#include "lora/adapter_tensors.h"

namespace quire {
namespace {

using LayerKind = AdaptableLayer::Kind;

class ModuleCheck {
 public:
  ModuleCheck(const std::string& where, const AdapterModule& module, const BaseModule& base)
      : where_(where), module_(module), base_(base) {}

  Status run() const {
    QUIRE_RETURN_IF_ERROR(check_kinds());
    const bool embedding = base_.kind == LayerKind::kEmbedding;
    const int64_t inputs = embedding ? base_.outputs : base_.inputs;   // of an embedding, A's input is the token
    const int64_t outputs = embedding ? base_.inputs : base_.outputs;  // and what comes out is the hidden state
    QUIRE_RETURN_IF_ERROR(check(module_.a, {module_.rank, inputs}));
    QUIRE_RETURN_IF_ERROR(check(module_.b, {outputs, module_.rank}));
    QUIRE_RETURN_IF_ERROR(check(module_.magnitude, {outputs}));
    QUIRE_RETURN_IF_ERROR(check(module_.lora_bias, {outputs}));
    QUIRE_RETURN_IF_ERROR(check_bias());
    QUIRE_RETURN_IF_ERROR(check_whole(module_.weight));
    QUIRE_RETURN_IF_ERROR(check_whole(module_.base_copy));
    return check_tokens();
  }

 private:
  Error refuse(const std::string& reason) const {
    return unsupported(fmt::format("{}: module {} {}", where_, quote_name(module_.path), reason));
  }

  Error bad(const WeightInfo& tensor, const std::string& what) const {
    return invalid_argument(
        fmt::format("{}: tensor {} {}; the adapter is for another base model", where_, quote_name(tensor.name), what));
  }

  Status check(const WeightInfo* tensor, const std::vector<int64_t>& expected) const {
    if (tensor == nullptr || tensor->shape == expected) return {};
    return bad(*tensor, fmt::format("has shape {}, but the model asks for [{}]", shape_text(*tensor),
                                    fmt::join(expected, ", ")));
  }

  bool has_vocabulary() const { return base_.kind == LayerKind::kEmbedding || is_output_head(module_.path); }

  Status check_kinds() const {
    if ((module_.a == nullptr) != (module_.b == nullptr)) return refuse("has only one of A and B");
    if (module_.a == nullptr && (module_.magnitude != nullptr || module_.lora_bias != nullptr)) {
      return refuse("has a magnitude or a bias of B without A and B");
    }
    if (module_.a != nullptr) QUIRE_RETURN_IF_ERROR(check_pair_kind());
    if (module_.token_rows != nullptr && !has_vocabulary()) {
      return refuse("has rows for tokens, but is neither the embedding nor the head");
    }
    return {};
  }

  Status check_pair_kind() const {
    if (module_.rank < 1) return refuse("has rank 0");
    if (module_.weight != nullptr) return refuse("has A and B beside a whole weight");
    if (base_.kind == LayerKind::kNorm) return refuse("has A and B, but its weight is no matrix");
    const bool embedding = base_.kind == LayerKind::kEmbedding;
    if (embedding && module_.lora_bias != nullptr) return refuse("is an embedding, but has a bias of B");
    if (module_.embedding == embedding) return {};
    return refuse(embedding ? "is an embedding, but its A and B are those of a linear layer"
                            : "is a linear layer, but its A and B are those of an embedding");
  }

  /// PEFT would leave a bias out that the base has no place for.
  Status check_bias() const {
    if (module_.bias == nullptr || base_.has_bias) return check(module_.bias, {base_.outputs});
    return bad(*module_.bias, "is a trained bias, but the model has none there");
  }

  Status check_whole(const WeightInfo* tensor) const {
    if (tensor == nullptr) return {};
    if (base_.kind == LayerKind::kNorm) return check(tensor, {base_.outputs});
    const bool resized = has_vocabulary() && tensor->shape.size() == 2 && tensor->shape[1] == base_.inputs &&
                         tensor->shape[0] != base_.outputs;
    if (!resized) return check(tensor, {base_.outputs, base_.inputs});
    return unsupported(
        fmt::format("{}: tensor {} has {} rows, the model's weight has {}: the vocabulary was resized in training; "
                    "resize the base model's with transformers' resize_token_embeddings and use that as the base",
                    where_, quote_name(tensor->name), tensor->shape[0], base_.outputs));
  }

  Status check_tokens() const {
    if (module_.token_rows == nullptr) return {};
    QUIRE_RETURN_IF_ERROR(check(module_.token_rows, {static_cast<int64_t>(module_.token_ids.size()), base_.inputs}));
    for (const int64_t id : module_.token_ids) {
      if (id >= 0 && id < base_.outputs) continue;
      return invalid_argument(
          fmt::format("{}: token id {} of trainable_token_indices is outside the vocabulary of {}; the adapter is for "
                      "another base model",
                      where_, id, base_.outputs));
    }
    return {};
  }

  const std::string& where_;
  const AdapterModule& module_;
  const BaseModule& base_;
};

}  // namespace

Status check_module(const std::string& where, const AdapterModule& module, const BaseModule& base) {
  return ModuleCheck(where, module, base).run();
}

}  // namespace quire
