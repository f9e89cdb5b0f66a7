// The fields that completions and chat completions share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sampling/sampling_params.h"
#include "server/protocol/field_reader.h"

namespace quire {

/// What a request is judged against.
struct RequestRules {
  SamplingParams defaults;  ///< the model's sampling defaults
  int64_t vocab_size = 0;
  int64_t max_logprobs = 0;                ///< --max-logprobs
  std::optional<int64_t> chat_max_tokens;  ///< generation_config's max_new_tokens; none: what the context leaves
};

/// Completions and chat alike.
struct GenerationFields {
  std::optional<std::string> model;  ///< absent or empty: the first served name
  SamplingParams sampling;  ///< judged, except for what differs by endpoint (max_tokens, logprobs): see finish_request
  bool stream = false;
  bool include_usage = false;           ///< stream_options.include_usage
  bool continuous_usage_stats = false;  ///< stream_options.continuous_usage_stats, with include_usage
  bool return_token_ids = false;
  bool return_tokens_as_token_ids = false;  ///< logprobs name tokens "token_id:N"
  int64_t priority = 0;
  std::string cache_salt;
  std::string request_id;  ///< the body's; empty where absent
  bool echo = false;       ///< the answer begins with the prompt (chat: with the last message, if the assistant's)
};

/// Reads the shared fields. Mistakes are kept in `fields`.
GenerationFields read_generation_fields(FieldReader& fields, const RequestRules& rules);

/// max_completion_tokens wins over the older max_tokens; without either `otherwise`.
void read_max_tokens(FieldReader& fields, GenerationFields& request, std::optional<int64_t> otherwise);

/// Judges the parameters once all are read, and what streaming does not go with; then gives the request's first
/// mistake, or logs which of its fields nobody knows.
Status finish_request(FieldReader& fields, const GenerationFields& request, const RequestRules& rules);

}  // namespace quire
