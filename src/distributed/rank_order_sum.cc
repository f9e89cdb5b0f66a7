#include "distributed/rank_order_sum.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace quire {
namespace {

constexpr int64_t kBlock = 2048;  // floats: the running sum stays in the first-level cache

}  // namespace

void sum_in_rank_order(std::span<const float* const> sources, int64_t count, float* out) {
  QUIRE_CHECK(!sources.empty());
  if (sources.size() == 1) {
    if (count > 0 && out != sources[0]) std::memcpy(out, sources[0], static_cast<size_t>(count) * sizeof(float));
    return;
  }
  if (sources.size() == 2) {
    const float* const a = sources[0];
    const float* const b = sources[1];
#pragma GCC ivdep  // NOLINT(clang-diagnostic-unknown-pragmas)
    for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
    return;
  }
  // `out` may be a later source: the sum is built beside it.
  float sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    const float* const a = sources[0] + begin;
    const float* const b = sources[1] + begin;
    for (int64_t i = 0; i < length; ++i) sum[i] = a[i] + b[i];
    for (size_t source = 2; source < sources.size(); ++source) {
      const float* const c = sources[source] + begin;
      for (int64_t i = 0; i < length; ++i) sum[i] += c[i];
    }
    std::memcpy(out + begin, sum, static_cast<size_t>(length) * sizeof(float));
  }
}

}  // namespace quire
