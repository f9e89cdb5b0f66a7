// Judges a conversation's shape; what roles may follow each other is the template's business.
#include "server/protocol/conversation.h"

#include <fmt/format.h>

#include "server/protocol/json_input.h"

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxMessages = 16 * 1024;

Status check_part(const Json& part, const std::string& where) {
  if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) {
    return invalid_argument(fmt::format("{} must be a content part with a type, but is {}.", where, excerpt(part)),
                            where);
  }
  const auto type = part["type"].get<std::string>();
  if (type != "text") {
    return unsupported(fmt::format("{} is of type {}; only text parts are supported.", where, excerpt(part["type"])),
                       where);
  }
  if (!part.contains("text") || !part["text"].is_string()) {
    return invalid_argument(fmt::format("{}.text must be a string.", where), where + ".text");
  }
  return {};
}

Status check_message(const Json& message, const std::string& where) {
  if (!message.is_object()) {
    return invalid_argument(fmt::format("{} must be an object, but is {}.", where, excerpt(message)), where);
  }
  if (!message.contains("role") || !message["role"].is_string()) {
    return invalid_argument(fmt::format("{}.role must be a string.", where), where + ".role");
  }
  const bool may_lack_content = message.contains("tool_calls") || message["role"] == "assistant";
  if (!message.contains("content") || message["content"].is_null()) {
    if (may_lack_content) return {};
    return invalid_argument(fmt::format("{}.content is missing.", where), where + ".content");
  }
  const Json& content = message["content"];
  if (content.is_string()) return {};
  if (!content.is_array()) {
    return invalid_argument(
        fmt::format("{}.content must be a string or a list of parts, but is {}.", where, excerpt(content)),
        where + ".content");
  }
  for (size_t i = 0; i < content.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(check_part(content[i], fmt::format("{}.content[{}]", where, i)));
  }
  return {};
}

Status check_messages(const Json& messages) {
  if (!messages.is_array()) {
    return invalid_argument(fmt::format("messages must be a list of messages, but is {}.", excerpt(messages)),
                            "messages");
  }
  if (messages.empty()) return invalid_argument("messages is empty: it needs at least one message.", "messages");
  if (messages.size() > kMaxMessages) {
    return invalid_argument(
        fmt::format("messages has {} messages; at most {} are allowed.", messages.size(), kMaxMessages), "messages");
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(check_message(messages[i], fmt::format("messages[{}]", i)));
  }
  return {};
}

}  // namespace

Conversation read_conversation(FieldReader& fields) {
  Conversation prompt;
  if (const Json* messages = fields.find("messages")) {
    if (const auto status = check_messages(*messages); !status.ok()) {
      fields.fail(status.error());
    } else {
      prompt.messages = *messages;
    }
  } else {
    fields.fail(invalid_argument("messages must be a list of messages; it is missing.", "messages"));
  }
  const auto add_generation_prompt = fields.boolean("add_generation_prompt");
  prompt.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  if (prompt.continue_final_message && add_generation_prompt.value_or(false)) {
    fields.fail(invalid_argument("continue_final_message and add_generation_prompt cannot both be true.",
                                 "continue_final_message"));
  }
  prompt.add_generation_prompt = add_generation_prompt.value_or(!prompt.continue_final_message);
  prompt.add_special_tokens = fields.boolean("add_special_tokens").value_or(false);
  if (const Json* kwargs = fields.object("chat_template_kwargs")) prompt.template_kwargs = *kwargs;
  return prompt;
}

}  // namespace quire
