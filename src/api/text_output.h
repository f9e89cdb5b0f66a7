// What a client of AsyncLlm sends and gets.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/loaded_adapter.h"
#include "engine/request.h"
#include "sampling/sampler.h"
#include "sampling/sampling_params.h"

namespace quire {

/// A prompt, ready as ids (the caller tokenized or rendered it), with its parameters.
struct TextRequest {
  std::string id;  ///< not empty, unique among running requests
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int64_t priority = 0;
  std::string cache_salt;
  AdapterLease adapter;  ///< nullptr: the base model
};

/// What became known of one choice since its last output. Text deltas are whole characters; text that could be the
/// start of a stop string is held back.
struct TextOutput {
  int32_t choice = 0;  ///< index among sampling.n
  std::string text;
  std::vector<int32_t> token_ids;    ///< tokens of this output
  std::vector<SampledToken> tokens;  ///< the same with logprobs, where asked for
  std::vector<std::string>
      token_texts;  ///< the text that each token added (for logprobs and text_offset), where logprobs were asked for
  std::vector<SampledToken> prompt_logprobs;  ///< as RequestOutput's; choice 0 has them for all
  FinishReason finish_reason = FinishReason::kNone;
  std::optional<std::string> stop_string;  ///< the stop string that ended it
  std::optional<int32_t> stop_token_id;
  std::optional<Error> error;
  RequestUsage usage;  ///< completion_tokens counts what was given out, also when a stop string ended it

  bool finished() const { return finish_reason != FinishReason::kNone; }
};

/// Called on the output thread, in order; must be quick and must not throw. Not called again for a choice after its
/// finished() output.
using TextCallback = std::function<void(TextOutput&&)>;

}  // namespace quire
