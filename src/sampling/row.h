// One row of logits as the sampler looks at it, with what is wrong in it put right.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/logits.h"
#include "sampling/sampler.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire {

/// A row and its statistics. A row whose numbers do not make a distribution (a NaN, +inf, or nothing but -inf) is
/// copied to the host and mended: NaN counts as -inf, +inf as the largest float, so that every row gives a defined
/// token and the request goes on.
class LogitsRow {
 public:
  /// `statistics` is the row's entry of ops::row_statistics. The tensor must outlive this.
  LogitsRow(const OpContext& context, const Tensor& logits, int64_t index, const ops::RowStatistics& statistics);
  LogitsRow(const LogitsRow&) = delete;
  LogitsRow& operator=(const LogitsRow&) = delete;

  static bool usable(const ops::RowStatistics& statistics);

  int64_t size() const { return logits_.cols(); }
  const ops::TokenValue& best() const { return statistics_.best; }
  void copy_to(std::vector<float>& out) const;

  /// `token`, then the `count` most likely tokens (all for a negative count), with log-probabilities and ranks of the
  /// raw distribution.
  std::vector<TokenLogprob> logprobs(int32_t token, int64_t count) const;

 private:
  void mend();

  OpContext context_;
  Tensor logits_;
  int64_t index_;
  ops::RowStatistics statistics_;
  std::vector<float> mended_;
};

}  // namespace quire
