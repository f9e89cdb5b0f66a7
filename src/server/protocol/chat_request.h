// The body of POST /v1/chat/completions.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "server/protocol/conversation.h"
#include "server/protocol/generation_fields.h"

namespace quire {

struct ChatRequest : GenerationFields {
  Conversation prompt;
  bool logprobs = false;  ///< with sampling.logprobs = top_logprobs
};

/// Errors name the field. Unknown fields are logged at debug level.
Result<ChatRequest> parse_chat_request(const nlohmann::ordered_json& body, const RequestRules& rules);

}  // namespace quire
