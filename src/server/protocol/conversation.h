// A conversation as chat completions and /tokenize take it.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "server/protocol/field_reader.h"

namespace quire {

/// What a chat template renders. Messages are objects with a role; content is a string, a list of text parts, or null.
struct Conversation {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  bool add_special_tokens = false;
  nlohmann::ordered_json template_kwargs = nlohmann::ordered_json::object();
};

/// Reads messages, add_generation_prompt, continue_final_message, add_special_tokens and chat_template_kwargs.
Conversation read_conversation(FieldReader& fields);

}  // namespace quire
