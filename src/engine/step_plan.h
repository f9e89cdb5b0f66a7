// What the scheduler hands to the executor for one step, and what comes back. Plain data: ranks receive copies of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/sampler.h"

namespace quire {

/// One sequence's part of a step: `tokens` at positions [start, start + tokens.size()).
struct ScheduledSequence {
  std::span<const int32_t> tokens;
  int64_t start = 0;                                   ///< tokens already computed
  std::vector<std::span<const int32_t>> block_tables;  ///< per KV group; -1 where a block has left the window
  bool sample = false;                                 ///< the last row gives a token
  SamplingRow sampling;                                ///< with `sample`
  /// Prompt logprobs: rows i for which the next prompt token is known give scores; empty when not asked for.
  std::span<const int32_t> next_prompt_tokens;  ///< next_prompt_tokens[i] follows tokens[i]
  int64_t prompt_logprob_count = 0;
  uint64_t adapter_id = 0;
};

struct StepPlan {
  std::vector<ScheduledSequence> sequences;  ///< ordered so that equal adapters are side by side, the base model first
  int64_t total_tokens = 0;
};

/// Results of one sequence, in the plan's order.
struct SequenceResult {
  SampledToken token;                         ///< with `sample`
  std::vector<SampledToken> prompt_logprobs;  ///< one per next_prompt_tokens entry
};

struct StepResult {
  std::vector<SequenceResult> sequences;
};

}  // namespace quire
