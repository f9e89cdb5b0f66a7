// From one row of logits in host memory to a token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/sampling_params.h"
#include "sampling/token_noise.h"
#include "sampling/truncation.h"

namespace quire {

/// Memory that one thread reuses from row to row.
struct ChooseScratch {
  std::vector<float> values;
  std::vector<Candidate> candidates;
};

/// Chooses as vLLM does: temperature, then min_p, then top_k (ties with the k-th stay), then top_p, then a sample of
/// what is left.
/// `largest` is the token with the largest logit, a finite one. A token of logit -inf or NaN is never chosen. `row` is
/// not changed.
int32_t choose_token(std::span<const float> row, int32_t largest, const SamplingParams& params, const TokenNoise& noise,
                     ChooseScratch& scratch);

/// Turns `row` into the logits that choose_token() samples from: divided by the temperature, what min_p, top_k and
/// top_p drop is -inf. Not for greedy sampling.
void keep_choosable(std::span<float> row, int32_t largest, const SamplingParams& params, ChooseScratch& scratch);

}  // namespace quire
