// One row of logits as the sampler looks at it, with what is wrong in it put right.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/logits.h"
#include "sampling/sampler.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire {

/// A row and its statistics. A row whose numbers do not make a distribution (a NaN, +inf, or nothing but -inf) is
/// copied to the host and mended: NaN counts as -inf, +inf as the largest float, so that every row gives a defined
/// token and the request goes on; the log says it once.
class LogitsRow {
 public:
  /// `statistics` is the row's entry of ops::row_statistics. The tensor must outlive this.
  LogitsRow(const OpContext& context, const Tensor& logits, int64_t index, const ops::RowStatistics& statistics);
  /// A row in host memory that outlives this and may be mended in place.
  explicit LogitsRow(std::span<float> values);
  LogitsRow(const LogitsRow&) = delete;
  LogitsRow& operator=(const LogitsRow&) = delete;

  static bool usable(const ops::RowStatistics& statistics);

  int64_t size() const { return logits_.cols(); }
  const ops::TokenValue& best() const { return statistics_.best; }
  void copy_to(std::vector<float>& out) const;

  /// What is given for `token` and others beside it: log-probabilities of this row's distribution, or with `as_logits`
  /// the logits themselves. Ranks count from 1, the most likely.
  struct Values {
    int64_t most_likely = 0;               ///< so many of the most likely tokens; negative: all
    std::span<const int32_t> tokens = {};  ///< where not empty: these instead
    bool as_logits = false;
  };
  /// `token` first, then the others.
  std::vector<TokenLogprob> values(int32_t token, const Values& wanted) const;

 private:
  void mend();
  void mend_in_place(std::span<float> values);

  OpContext context_;
  Tensor logits_;
  int64_t index_;
  ops::RowStatistics statistics_;
  std::vector<float> mended_;
};

}  // namespace quire
