// What sampling needs of rows of logits. All results are independent of other rows and of the number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// A token and its value (logit or log-probability).
struct TokenValue {
  int32_t token = 0;
  float value = 0.0f;
};

struct RowStatistics {
  TokenValue best;           ///< the largest logit; of equal ones the lowest token
  float log_sum_exp = 0.0f;  ///< log of the sum of exp(logit), summed in float64 in ascending blocks
};

/// Largest logit and log-sum-exp of each row. logits: [rows, vocab] float32.
void row_statistics(OpContext& context, const Tensor& logits, std::span<RowStatistics> out);

/// The `count` largest logits of one row in descending order, of equal ones the lower token first.
std::vector<TokenValue> top_logits(const OpContext& context, const Tensor& logits, int64_t row, int64_t count);

/// How many logits of the row are larger than `value` (so rank = this + 1), as vLLM counts ranks.
int64_t count_larger(const OpContext& context, const Tensor& logits, int64_t row, float value);

/// Copies one row of logits to host memory.
void copy_row_to_host(const OpContext& context, const Tensor& logits, int64_t row, std::span<float> out);

/// out[i] = logits[row, tokens[i]].
void gather_logits(const OpContext& context, const Tensor& logits, int64_t row, std::span<const int32_t> tokens,
                   std::span<float> out);

}  // namespace quire::ops
