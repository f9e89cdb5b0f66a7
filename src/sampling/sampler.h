// From rows of logits to tokens, deterministically for a request's seed and position.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/logits.h"
#include "sampling/logit_edits.h"
#include "sampling/sampling_params.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire {

/// A token with its log-probability (or logit) and its rank, 1 being the most likely.
struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;
  int64_t rank = 0;
};

/// The chosen token first, then the most likely ones in descending order.
struct SampledToken {
  int32_t token = 0;
  std::vector<TokenLogprob> logprobs;  ///< empty when the request asks for none; else [chosen, top 1, ... top n]
};

/// One row to sample.
struct SamplingRow {
  const SamplingParams* params = nullptr;
  uint64_t seed = 0;                  ///< the request's, given or drawn at admission
  int64_t position = 0;               ///< of the token that is sampled, counted from the prompt's first
  int32_t choice = 0;                 ///< index among n
  const LogitEdits* edits = nullptr;  ///< what changes the row first; nullptr: nothing
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;
};

/// Samples row i of `logits` [rows, vocab] by rows[i]. Noise is Philox keyed by (seed, choice, position, token), so a
/// result depends on nothing else in the batch.
void sample(OpContext& context, const Tensor& logits, std::span<const SamplingRow> rows, std::span<SampledToken> out);

/// Log-probability of a known next token for each row, with the `count` most likely ones (prompt_logprobs).
void score(OpContext& context, const Tensor& logits, std::span<const int32_t> next_tokens,
           std::span<const int64_t> counts, std::span<SampledToken> out);

}  // namespace quire
