#include "lora/layer_base_copy.h"

#include <algorithm>
#include <span>
#include <vector>

#include "lora/adapter_tensors.h"
#include "lora/base_copy.h"
#include "lora/lora_norms.h"
#include "ops/copy.h"
#include "tensor/convert.h"

namespace quire {

Status check_base_copy(OpContext& context, const std::string& where, const WeightSource& tensors,
                       const AdaptableLayer& layer, const LoraFit& fit) {
  const WeightInfo* const tensor = fit.module->base_copy;
  if (tensor == nullptr) return {};
  constexpr int64_t kRowsCompared = 256;  // of each part of the weight
  BaseCopyCheck check;
  std::vector<float> scratch;
  std::vector<float> copy(static_cast<size_t>(tensor->cols()));
  if (layer.kind == AdaptableLayer::Kind::kNorm) {
    std::vector<float> base(copy.size());
    ops::copy_to_host(context, *layer.norm_weight, base);
    QUIRE_ASSIGN_OR_RETURN(copy, read_floats({tensors, *tensor}));
    check.add(copy, base);
    return check.judge(where, *tensor);
  }
  for (const RowRun& run : runs_of(layer.pieces, fit.piece)) {
    const int64_t step = std::max<int64_t>(run.count / kRowsCompared, 1);
    for (int64_t i = 0; i < run.count; i += step) {
      QUIRE_ASSIGN_OR_RETURN(const MatrixView view, tensors.read_rows(*tensor, run.source + i, 1, scratch));
      row_to_float(view, 0, copy.data());
      check.add(std::span(copy).subspan(static_cast<size_t>(layer.input.begin)),
                weight_rows(context, *layer.weight, run.local + i, 1));
    }
  }
  return check.judge(where, *tensor);
}

}  // namespace quire
