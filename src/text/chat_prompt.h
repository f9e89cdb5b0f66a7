// From a chat's messages to the prompt's token ids.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire {

struct ChatPromptOptions {
  /// Special tokens' text inside what the request brings (messages, tools, documents, template arguments). What the
  /// template itself writes is always parsed.
  SpecialText user_text = SpecialText::kLiteral;
  /// The prompt ends inside the last message, so that the model goes on with it.
  bool continue_final_message = false;
};

struct ChatPrompt {
  std::string text;  ///< as rendered
  std::vector<int32_t> token_ids;
};

/// Renders `context` (see ChatTemplate::render; its messages normalized) and encodes the result. The template writes
/// BOS itself where the model wants one, so the tokenizer adds none.
Result<ChatPrompt> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                               nlohmann::ordered_json context, const ChatPromptOptions& options = {});

}  // namespace quire
