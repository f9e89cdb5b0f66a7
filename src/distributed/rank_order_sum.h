// The sum behind every reduction: always over the ranks in ascending order, so that it has the same bits on each rank,
// each time, however the message is cut.
#pragma once

#include <cstdint>
#include <span>

namespace quire {

/// out[i] = ((sources[0][i] + sources[1][i]) + sources[2][i]) + ... for i in [0, count); `out` may be one of the
/// sources.
void sum_in_rank_order(std::span<const float* const> sources, int64_t count, float* out);

}  // namespace quire
