// The vocabulary of the engine: what comes in, what goes out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sampling/bad_words.h"
#include "sampling/sampler.h"
#include "sampling/sampling_params.h"

namespace quire {

/// A request as the engine takes it: token ids and checked parameters.
struct EngineRequest {
  std::string id;               ///< unique among running requests
  std::vector<int32_t> prompt;  ///< never empty
  SamplingParams sampling;
  int64_t priority = 0;     ///< lower runs first under the priority policy
  std::string cache_salt;   ///< pages are shared only between equal salts
  uint64_t adapter_id = 0;  ///< 0 is the base model
  std::shared_ptr<const void>
      adapter;  ///< keeps the adapter in memory; let go when the engine has done with the request
  std::vector<int32_t> eos_token_ids;         ///< end the output unless ignore_eos
  std::optional<LogprobsMode> logprobs_mode;  ///< none: the server's
  BadWords bad_words;                         ///< those of sampling.bad_words; nullptr for none
  int32_t choice = 0;                         ///< index among n
  /// The id of a request with the same prompt, salt and adapter that was submitted before, or empty. This one waits
  /// until that one's prompt is computed, so that it finds the pages.
  std::string shares_prompt_with;
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kAbort, kError, kRepetition };

/// "stop", "length", "abort", "error", "repetition"; kNone gives "".
const char* finish_reason_name(FinishReason reason);

/// What ended an output with kRepetition, as its stop_reason.
constexpr const char* kRepetitionDetected = "repetition_detected";

/// Numbers of one request, complete when it has finished. Times in seconds of the steady clock.
struct RequestUsage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;  ///< prompt tokens taken from the prefix cache at first admission
  int64_t preemptions = 0;
  double arrival_time = 0, scheduled_time = 0, first_token_time = 0, last_token_time = 0;
};

/// What one step gave one request: new tokens in order, and the end if it is the end.
struct RequestOutput {
  std::string id;
  std::vector<SampledToken> tokens;
  /// Only in the first output that follows the prompt's last chunk and only if asked for: entry i belongs to prompt
  /// token i + 1 (chosen token first).
  std::vector<SampledToken> prompt_logprobs;
  FinishReason finish_reason = FinishReason::kNone;
  std::optional<int32_t> stop_token_id;  ///< the stop_token_ids entry that ended it; none for EOS
  std::optional<Error> error;            ///< with kError
  RequestUsage usage;

  bool finished() const { return finish_reason != FinishReason::kNone; }
};

/// Called on the engine thread after each step that concerns the request; must be quick and must not throw.
using OutputCallback = std::function<void(RequestOutput&&)>;

}  // namespace quire
