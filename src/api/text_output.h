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
  int32_t choice = 0;
};

/// What became known since the last output. Text deltas are whole characters; text that could be the start of a stop
/// string is held back.
struct TextOutput {
  std::string text;
  std::vector<int32_t> token_ids;    ///< tokens of this output
  std::vector<SampledToken> tokens;  ///< the same with logprobs, where asked for
  std::vector<std::string>
      token_texts;  ///< the text that each token added (for logprobs and text_offset), where logprobs were asked for
  std::vector<SampledToken> prompt_logprobs;  ///< as RequestOutput's
  FinishReason finish_reason = FinishReason::kNone;
  std::optional<std::string> stop_string;  ///< the stop string that ended it
  std::optional<int32_t> stop_token_id;
  std::optional<Error> error;
  RequestUsage usage;  ///< completion_tokens counts what was given out, also when a stop string ended it

  bool finished() const { return finish_reason != FinishReason::kNone; }
};

/// Called on the output thread, in order; must be quick and must not throw. After an output that is finished() it is
/// never called again.
using TextCallback = std::function<void(TextOutput&&)>;

}  // namespace quire
