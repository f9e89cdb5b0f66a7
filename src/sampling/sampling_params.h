// Judges the sampling parameters of a request (the struct itself is public).
#pragma once

#include "base/result.h"
#include "quire/sampling_params.h"

namespace quire {

/// The temperature that logits are divided by: small ones are raised to 0.01, as vLLM does, so that nothing overflows.
double effective_temperature(const SamplingParams& params);

/// Refuses values out of range, naming the field and the range. `max_logprobs` is the server's cap (--max-logprobs; -1:
/// none).
Status validate(const SamplingParams& params, int64_t max_logprobs);

}  // namespace quire
