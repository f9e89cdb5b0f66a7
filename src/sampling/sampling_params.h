// Judges the sampling parameters of a request (the struct itself is public).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "quire/sampling_params.h"

namespace quire {

/// What a request's parameters are judged against.
struct SamplingLimits {
  int64_t max_logprobs = 0;  ///< --max-logprobs; -1: no cap
  int64_t vocab_size = 0;
};

/// What a sampled token's logprobs are (--logprobs-mode): log-probabilities or logits, as the model gives them or as
/// they are once penalties, temperature, top_p and all else have been applied (for greedy rows: all that comes before
/// the temperature). Prompt logprobs are always the model's log-probabilities.
enum class LogprobsMode : uint8_t { kRawLogprobs, kProcessedLogprobs, kRawLogits, kProcessedLogits };

constexpr const char* kLogprobsModes = "raw_logprobs, processed_logprobs, raw_logits or processed_logits";
/// Nothing for a name that is none of these.
std::optional<LogprobsMode> parse_logprobs_mode(std::string_view name);

/// No beam search has more: each is a request at every step.
constexpr int64_t kMaxBeams = 256;

/// No request has more choices, those of all its prompts together.
constexpr int64_t kMaxChoices = 16384;

/// The temperature that logits are divided by: small ones are raised to 0.01, as vLLM does, so that nothing overflows.
double effective_temperature(const SamplingParams& params);

/// Refuses values out of range, naming the field and the range.
Status validate(const SamplingParams& params, const SamplingLimits& limits);

}  // namespace quire
