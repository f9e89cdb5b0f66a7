// Parsing of chat requests: what differs from completions.
#include "server/protocol/chat_request.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/protocol/unsupported_fields.h"

namespace quire {

namespace {

void read_logprobs(FieldReader& fields, ChatRequest& request, const RequestRules& rules) {
  request.logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs");
  if (top && *top != 0 && !request.logprobs) {
    return fields.fail(invalid_argument("top_logprobs needs logprobs: true.", "top_logprobs"));
  }
  if (top && (*top < -1 || (rules.max_logprobs >= 0 && (*top < 0 || *top > rules.max_logprobs)))) {
    return fields.fail(
        invalid_argument(fmt::format("top_logprobs must be between 0 and {}, but is {}; --max-logprobs sets the limit.",
                                     rules.max_logprobs, *top),
                         "top_logprobs"));
  }
  request.sampling.logprobs = request.logprobs ? std::optional<int64_t>(top.value_or(0)) : std::nullopt;
}

}  // namespace

Result<ChatRequest> parse_chat_request(const nlohmann::ordered_json& body, const RequestRules& rules) {
  FieldReader fields(body);
  ChatRequest request;
  static_cast<GenerationFields&>(request) = read_generation_fields(fields, rules);
  read_max_tokens(fields, request, rules.chat_max_tokens);
  request.echo = fields.boolean("echo").value_or(false);
  read_logprobs(fields, request, rules);
  refuse_unsupported(fields, Endpoint::kChat);
  request.prompt = read_conversation(fields);
  QUIRE_RETURN_IF_ERROR(finish_request(fields, request, rules));
  return request;
}

}  // namespace quire
