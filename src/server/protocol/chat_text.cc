// Joining parts; finding the last message's end.
#include "server/protocol/chat_text.h"

namespace quire {

using Json = nlohmann::ordered_json;

Json join_text_parts(Json messages) {
  for (Json& message : messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    std::string joined;
    for (const Json& part : *content) {
      if (!joined.empty()) joined += '\n';
      joined += part["text"].get_ref<const std::string&>();
    }
    *content = std::move(joined);
  }
  return messages;
}

Result<std::string> cut_after_final_message(std::string rendered, const Json& messages) {
  const Json joined = join_text_parts(Json::array({messages.back()}));
  const Json& content = joined[0].contains("content") ? joined[0]["content"] : Json();
  const std::string text = content.is_string() ? content.get<std::string>() : std::string();
  constexpr const char* kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) {
    return invalid_argument("continue_final_message needs a last message with text.", "messages");
  }
  const std::string trimmed = text.substr(first, text.find_last_not_of(kSpace) - first + 1);
  const size_t found = rendered.rfind(trimmed);
  if (found == std::string::npos) {
    return invalid_argument("The chat template does not print the last message's text as it is, so it cannot be continued.",
                            "continue_final_message");
  }
  // What white space follows in the message is kept where the template kept it.
  size_t end = found + trimmed.size();
  const std::string tail = text.substr(first + trimmed.size());
  if (!tail.empty() && rendered.compare(end, tail.size(), tail) == 0) end += tail.size();
  rendered.resize(end);
  return rendered;
}

}  // namespace quire
