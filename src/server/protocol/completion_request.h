// The body of POST /v1/completions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "server/protocol/generation_fields.h"

namespace quire {

/// One prompt: text that is yet to be tokenized, or ids.
using CompletionPrompt = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest : GenerationFields {
  std::vector<CompletionPrompt> prompts;  ///< at least one; choice i answers prompts[i / n]
  bool add_special_tokens = true;
  bool prompt_only = false;      ///< echo with max_tokens 0
  bool prompt_logprobs = false;  ///< asked for as such, not for the echo's sake
};

/// Errors name the field. Unknown fields are logged at debug level.
Result<CompletionRequest> parse_completion_request(const nlohmann::ordered_json& body, const RequestRules& rules);

}  // namespace quire
