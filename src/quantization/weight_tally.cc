#include "quantization/weight_tally.h"

#include <fmt/format.h>

namespace quire {

void WeightTally::add(const std::string& form, size_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_[form] += bytes;
}

std::string WeightTally::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [form, bytes] : bytes_) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {:.1f} MB", form, static_cast<double>(bytes) / 1e6);
  }
  return text;
}

}  // namespace quire
