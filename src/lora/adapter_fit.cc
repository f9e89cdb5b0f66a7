#include "lora/adapter_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "checkpoint/printable.h"
#include "lora/adapter_config.h"
#include "lora/adapter_tensors.h"
#include "lora/adapter_tying.h"

namespace quire {
namespace {

/// Checks one module's tensors against the base's weight [rows, cols].
class ModuleFit {
 public:
  ModuleFit(const AdapterFiles& files, const AdapterModule& module, const AdapterBase& base)
      : files_(files), module_(module), base_(base), weight_(*base.weight(module.path)) {}

  Status check() const {
    QUIRE_RETURN_IF_ERROR(check_pair());
    QUIRE_RETURN_IF_ERROR(check_whole(module_.weight));
    QUIRE_RETURN_IF_ERROR(check_whole(module_.base_copy));
    QUIRE_RETURN_IF_ERROR(check_token_rows());
    return check_bias();
  }

 private:
  Error bad(const WeightInfo& tensor, const std::string& expected) const {
    return invalid_argument(files_.tensors().description() + ": tensor " + quote_name(tensor.name) + " has shape " +
                            shape_text(tensor) + ", the model needs " + expected + " (its " + quote_name(weight_.name) +
                            " has " + shape_text(weight_) + "); the adapter is for another base model");
  }

  Status check_pair() const {
    if (module_.a == nullptr) return {};
    if (weight_.shape.size() != 2) return bad(*module_.a, "no pair for a weight that is no matrix");
    const int64_t inputs = module_.embedding ? weight_.rows() : weight_.cols();
    const int64_t outputs = module_.embedding ? weight_.cols() : weight_.rows();
    if (module_.a->shape[1] != inputs) return bad(*module_.a, fmt::format("[{}, {}]", module_.rank, inputs));
    if (module_.b->shape[0] != outputs) return bad(*module_.b, fmt::format("[{}, {}]", outputs, module_.rank));
    return {};
  }

  Status check_whole(const WeightInfo* tensor) const {
    if (tensor == nullptr || tensor->shape == weight_.shape) return {};
    if (weight_.shape.size() == 2 && tensor->shape.size() == 2 && tensor->cols() == weight_.cols()) {
      return unsupported(files_.tensors().description() + ": tensor " + quote_name(tensor->name) + " has " +
                         std::to_string(tensor->rows()) + " rows, the model's weight has " +
                         std::to_string(weight_.rows()) +
                         ": the vocabulary was resized in training; resize the base model's with transformers' "
                         "resize_token_embeddings and use that as the base");
    }
    return bad(*tensor, shape_text(weight_));
  }

  Status check_token_rows() const {
    if (module_.token_rows == nullptr) return {};
    if (weight_.shape.size() != 2 || module_.token_rows->cols() != weight_.cols()) {
      return bad(*module_.token_rows, "rows of " + std::to_string(weight_.cols()));
    }
    const int64_t largest = *std::ranges::max_element(module_.token_ids);
    if (largest >= weight_.rows()) return bad(*module_.token_rows, "a row for token " + std::to_string(largest));
    return {};
  }

  Status check_bias() const {
    if (module_.bias == nullptr) return {};
    const WeightInfo* bias = base_.bias(module_.path);
    if (bias == nullptr) {
      return invalid_argument(
          files_.tensors().description() + ": tensor " + quote_name(module_.bias->name) +
          " is a trained bias, but the model has none there; the adapter is for another base model");
    }
    if (bias->shape == module_.bias->shape) return {};
    return bad(*module_.bias, shape_text(*bias));
  }

  const AdapterFiles& files_;
  const AdapterModule& module_;
  const AdapterBase& base_;
  const WeightInfo& weight_;
};

/// Within what rounding to a narrower type can move a value.
bool is_close(float a, float b) { return std::abs(a - b) <= 1e-6f + 0.0079f * std::abs(a); }

}  // namespace

const WeightInfo* AdapterBase::weight(const std::string& path) const {
  if (tied_head_ && is_output_head(path)) return embedding();
  return tensors_.find(path + ".weight");
}

Status check_adapter_fit(const AdapterFiles& files, const AdapterBase& base) {
  std::vector<std::string> missing;
  for (const AdapterModule& module : files.modules()) {
    if (base.weight(module.path) == nullptr) missing.push_back(quote_name(module.path));
  }
  if (!missing.empty()) {
    const std::string trained_on =
        files.base_model_name().empty() ? "" : "; it was trained on " + quote_name(files.base_model_name());
    return invalid_argument(files.tensors().description() +
                            " changes modules that the model does not have: " + list_some(missing) + trained_on);
  }
  QUIRE_RETURN_IF_ERROR(check_needs_head(files.tensors().description(), files.modules(), base.tied_head()));
  for (const AdapterModule& module : files.modules()) {
    QUIRE_RETURN_IF_ERROR(ModuleFit(files, module, base).check());
  }
  return {};
}

Status check_base_copies(const AdapterFiles& files, const AdapterBase& base) {
  for (const AdapterModule& module : files.modules()) {
    if (module.base_copy == nullptr || module.weight != nullptr) continue;
    const WeightInfo& weight = *base.weight(module.path);
    QUIRE_ASSIGN_OR_RETURN(const bool same,
                           same_values({files.tensors(), *module.base_copy}, {base.tensors(), weight}, is_close));
    if (same) continue;
    return invalid_argument(files.tensors().description() + ": tensor " + quote_name(module.base_copy->name) +
                            " is the base weight as it was in training, and differs from the model's; the adapter is "
                            "for another base model");
  }
  return {};
}

}  // namespace quire
