#include "lora/adapter_fit.h"

#include <optional>
#include <vector>

#include "checkpoint/printable.h"
#include "lora/adapter_config.h"
#include "lora/adapter_tensors.h"
#include "lora/adapter_tying.h"
#include "lora/base_copy.h"
#include "lora/module_check.h"
#include "tensor/convert.h"

namespace quire {
namespace {

/// The base's weight and bias as an adapter sees them; nothing for a weight of more than two dimensions.
std::optional<BaseModule> base_module(const AdapterBase& base, const std::string& path) {
  const WeightInfo* const weight = base.weight(path);
  if (weight == nullptr || weight->shape.empty() || weight->shape.size() > 2) return std::nullopt;
  BaseModule module;
  if (weight->shape.size() == 1) {
    module.kind = AdaptableLayer::Kind::kNorm;
  } else if (weight == base.embedding() && !is_output_head(path)) {
    module.kind = AdaptableLayer::Kind::kEmbedding;
  }
  module.outputs = weight->shape[0];
  module.inputs = weight->shape.size() == 2 ? weight->shape[1] : 1;
  module.has_bias = base.bias(path) != nullptr;
  return module;
}

}  // namespace

const WeightInfo* AdapterBase::weight(const std::string& path) const {
  if (tied_head_ && is_output_head(path)) return embedding();
  return tensors_.find(path + ".weight");
}

Status check_adapter_fit(const AdapterFiles& files, const AdapterBase& base) {
  const std::string& where = files.tensors().description();
  std::vector<std::string> missing;
  for (const AdapterModule& module : files.modules()) {
    if (!base_module(base, module.path)) missing.push_back(quote_name(module.path));
  }
  if (!missing.empty()) {
    const std::string trained_on =
        files.base_model_name().empty() ? "" : "; it was trained on " + quote_name(files.base_model_name());
    return invalid_argument(where + " changes modules that the model does not have: " + list_some(missing) +
                            trained_on);
  }
  QUIRE_RETURN_IF_ERROR(check_needs_head(where, files.modules(), base.tied_head()));
  for (const AdapterModule& module : files.modules()) {
    QUIRE_RETURN_IF_ERROR(check_module(where, module, *base_module(base, module.path)));
  }
  return {};
}

Status check_base_copies(const AdapterFiles& files, const AdapterBase& base) {
  for (const AdapterModule& module : files.modules()) {
    if (module.base_copy == nullptr) continue;
    const WeightInfo& weight = *base.weight(module.path);
    BaseCopyCheck check;
    std::vector<float> scratch, copy(static_cast<size_t>(weight.cols())), own(copy.size());
    for (int64_t row = 0; row < weight.rows(); ++row) {
      QUIRE_ASSIGN_OR_RETURN(MatrixView view, files.tensors().read_rows(*module.base_copy, row, 1, scratch));
      row_to_float(view, 0, copy.data());
      QUIRE_ASSIGN_OR_RETURN(view, base.tensors().read_rows(weight, row, 1, scratch));
      row_to_float(view, 0, own.data());
      check.add(copy, own);
    }
    QUIRE_RETURN_IF_ERROR(check.judge(files.tensors().description(), *module.base_copy));
  }
  return {};
}

}  // namespace quire
