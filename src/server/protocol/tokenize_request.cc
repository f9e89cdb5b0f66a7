// Parsing of /tokenize and /detokenize.
#include "server/protocol/tokenize_request.h"

#include "server/protocol/unsupported_fields.h"

namespace quire {

using Json = nlohmann::ordered_json;

Result<TokenizeRequest> parse_tokenize_request(const Json& body) {
  FieldReader fields(body);
  TokenizeRequest request;
  request.model = fields.string("model");
  request.return_token_strs = fields.boolean("return_token_strs").value_or(false);
  const bool has_messages = fields.find("messages") != nullptr;
  const auto prompt = fields.string("prompt");
  if (has_messages && prompt) {
    fields.fail(invalid_argument("Give either prompt or messages, not both.", "prompt"));
  } else if (has_messages) {
    request.prompt = read_conversation(fields);
    refuse_unsupported(fields, Endpoint::kChat);
  } else if (prompt) {
    request.prompt = *prompt;
    request.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  } else {
    fields.fail(invalid_argument("prompt must be a string (or give messages); it is missing.", "prompt"));
  }
  QUIRE_RETURN_IF_ERROR(fields.status());
  return request;
}

Result<DetokenizeRequest> parse_detokenize_request(const Json& body, int64_t vocab_size) {
  FieldReader fields(body);
  DetokenizeRequest request;
  request.model = fields.string("model");
  const Json* tokens = fields.find("tokens");
  if (!tokens) return invalid_argument("tokens must be a list of token ids; it is missing.", "tokens");
  QUIRE_RETURN_IF_ERROR(fields.status());
  QUIRE_ASSIGN_OR_RETURN(request.tokens, read_token_ids(*tokens, "tokens", vocab_size));
  return request;
}

}  // namespace quire
