#include "lora/base_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/printable.h"
#include "lora/adapter_tensors.h"
#include "lora/lora_norms.h"
#include "ops/copy.h"
#include "tensor/convert.h"

namespace quire {
namespace {

/// Of the weight's length: a copy rounded to another 16-bit type differs by less.
constexpr double kMostDifference = 0.01;

}  // namespace

void BaseCopyCheck::add(std::span<const float> copy, std::span<const float> base) {
  for (size_t i = 0; i < base.size(); ++i) {
    const auto own = static_cast<double>(base[i]);
    const double apart = static_cast<double>(copy[i]) - own;
    difference_ += apart * apart;
    size_ += own * own;
  }
}

Status BaseCopyCheck::judge(const std::string& where, const WeightInfo& tensor) const {
  if (difference_ <= kMostDifference * kMostDifference * size_) return {};
  return invalid_argument(fmt::format(
      "{}: tensor {} is a copy of the base's weight as it was in training, but the model's own differs by {:.1f}%: the "
      "adapter was trained on another base model; remove the tensor to use the model's weight",
      where, quote_name(tensor.name), 100 * std::sqrt(difference_ / std::max(size_, 1e-30))));
}

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
