// Prompts run together through a model in this process, with the time of every token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/async_llm.h"
#include "cli/bench/random_prompts.h"

namespace quire::cli {

/// Seconds from the batch's start at which each token came.
struct TokenTimes {
  std::vector<double> times;
};

struct BatchTimes {
  double seconds = 0;  ///< until the last request ended
  std::vector<TokenTimes> requests;
};

/// Submits all prompts at once and waits for their ends, EOS ignored. They take `adapters` in turn; none: the model
/// alone. Throws StartupError with the sentence of the
/// first request that failed.
BatchTimes run_batch(AsyncLlm& llm, const std::vector<RandomPrompt>& prompts, double temperature,
                     const std::vector<AdapterLease>& adapters = {});

/// The parts of a batch's time.
struct BatchPhases {
  double first_token_seconds = 0;  ///< until every request had its first token: the prefill
  double decode_tokens_per_second =
      0;  ///< of all requests together, between the last first token and the first end; 0: no such time
};
BatchPhases split_phases(const BatchTimes& batch);

/// Where prompts draw their ids from, for a vocabulary of this size: its upper part, past special tokens.
void draw_from_vocabulary(PromptShape& shape, int64_t vocab_size);

}  // namespace quire::cli
