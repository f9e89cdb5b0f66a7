// What the engine thread knows of one request between its submission and its end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/kv_cache_manager.h"
#include "engine/request.h"

namespace quire {

enum class RequestStage : uint8_t { kQueued, kWaiting, kRunning };

/// Plain data; the scheduler and the step's bookkeeping change it. Each step lets num_computed catch up with
/// tokens.size().
struct RequestState {
  EngineRequest request;
  OutputCallback callback;

  std::vector<int32_t> tokens;  ///< prompt, then output
  int64_t prompt_tokens = 0;
  int64_t num_computed = 0;      ///< leading tokens whose keys and values are cached
  int64_t max_total_tokens = 0;  ///< prompt + output may not exceed this
  uint64_t seed = 0;
  std::unique_ptr<LogitEdits> edits;  ///< nullptr: rows are sampled as they are
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;
  std::string cache_extra;  ///< what must be equal for pages to be shared: adapter id and salt
  SequenceBlocks blocks;
  RequestUsage usage;

  RequestStage stage = RequestStage::kQueued;
  int64_t arrival = 0;            ///< position in the order of submission
  int64_t scheduled = 0;          ///< tokens of the step being planned
  int64_t admissions_passed = 0;  ///< requests that were admitted past this one while it waited for blocks
  int64_t tried_at_epoch = -1;    ///< the memory epoch in which admission last failed

  std::vector<RequestState*> followers;  ///< requests that wait for the pages of this one's prompt
  RequestState* leader = nullptr;        ///< the one that this one waits for

  std::vector<SampledToken> prompt_logprobs;  ///< gathered over the prompt's chunks
  bool prompt_logprobs_delivered = false;
  bool ended = false;  ///< its last output is made, if not yet delivered

  int64_t total() const { return static_cast<int64_t>(tokens.size()); }
  int64_t output_tokens() const { return total() - prompt_tokens; }
  int64_t remaining() const { return total() - num_computed; }
  /// The last token alone is to be computed: the request is decoding.
  bool decoding() const { return remaining() == 1; }
  bool wants_prompt_logprobs() const {
    return request.sampling.prompt_logprobs.has_value() && !prompt_logprobs_delivered;
  }
};

}  // namespace quire
