// The bodies of POST /tokenize and POST /detokenize.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/protocol/conversation.h"

namespace quire {

struct TokenizeRequest {
  std::optional<std::string> model;
  std::variant<std::string, Conversation> prompt;
  bool add_special_tokens = true;  ///< for a string; a chat has its own
  bool return_token_strs = false;
};

struct DetokenizeRequest {
  std::optional<std::string> model;
  std::vector<int32_t> tokens;
};

Result<TokenizeRequest> parse_tokenize_request(const nlohmann::ordered_json& body);
Result<DetokenizeRequest> parse_detokenize_request(const nlohmann::ordered_json& body, int64_t vocab_size);

}  // namespace quire
