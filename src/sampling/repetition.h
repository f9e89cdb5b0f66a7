// Finds an output that runs in circles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "sampling/sampling_params.h"

namespace quire {

/// Whether the last tokens are a pattern of a size in [min_pattern_size, max_pattern_size], min_count times in a row.
/// Mostly one comparison for each size; never more than the output is long for a size.
inline bool repeats(std::span<const int32_t> output, const RepetitionDetection& detection) {
  const auto tokens = static_cast<int64_t>(output.size());
  const int64_t largest = std::min(detection.max_pattern_size, tokens / detection.min_count);
  for (int64_t size = detection.min_pattern_size; size <= largest; ++size) {
    // The tail equals itself one pattern earlier, min_count - 1 times.
    const auto tail = output.last(static_cast<size_t>(size * (detection.min_count - 1)));
    const auto earlier = output.last(static_cast<size_t>(size * detection.min_count)).first(tail.size());
    if (std::equal(tail.rbegin(), tail.rend(), earlier.rbegin())) return true;
  }
  return false;
}

}  // namespace quire
