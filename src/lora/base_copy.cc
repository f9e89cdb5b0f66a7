#include "lora/base_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/printable.h"

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

}  // namespace quire
