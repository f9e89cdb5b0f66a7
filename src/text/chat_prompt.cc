// Special text of a request stays literal by marks (Tokenizer::mark_special_text): every string of the request is
// marked before it is rendered. Templates see texts of the same length with the same words; the marks are private-use
// characters that occur nowhere else in the request.
#include "text/chat_prompt.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

/// Follows the last message's content while it is rendered; the space shows whether the template trims.
constexpr std::string_view kContinueTag = "QUIRE_CONTINUE_FINAL_MESSAGE ";

/// Keys of the context that the model's own files fill.
bool is_models_own(std::string_view key) {
  constexpr std::array<std::string_view, 4> kOwn = {"bos_token", "eos_token", "pad_token", "unk_token"};
  return std::find(kOwn.begin(), kOwn.end(), key) != kOwn.end();
}

/// The value with `change` applied to all strings in it, keys too. Depth is bounded by the parser of the request.
Result<Json> map_strings(const Json& value, const std::function<Result<std::string>(const std::string&)>& change) {
  if (value.is_string()) {
    QUIRE_ASSIGN_OR_RETURN(std::string text, change(value.get_ref<const std::string&>()));
    return Json(std::move(text));
  }
  if (value.is_array()) {
    Json result = Json::array();
    for (const Json& item : value) {
      QUIRE_ASSIGN_OR_RETURN(Json mapped, map_strings(item, change));
      result.push_back(std::move(mapped));
    }
    return result;
  }
  if (value.is_object()) {
    Json result = Json::object();
    for (const auto& [key, item] : value.items()) {
      QUIRE_ASSIGN_OR_RETURN(const std::string mapped_key, change(key));
      QUIRE_ASSIGN_OR_RETURN(result[mapped_key], map_strings(item, change));
    }
    return result;
  }
  return value;
}

Result<SpecialTextMarks> mark_request(const Tokenizer& tokenizer, Json& context) {
  const std::string everything = context.dump(-1, ' ', false, Json::error_handler_t::replace);
  QUIRE_ASSIGN_OR_RETURN(const SpecialTextMarks marks, tokenizer.marks_absent_from(everything));
  if (marks.first == 0) return marks;
  for (auto& [key, value] : context.items()) {
    if (is_models_own(key)) continue;
    QUIRE_ASSIGN_OR_RETURN(
        value, map_strings(value, [&](const std::string& text) { return tokenizer.mark_special_text(text, marks); }));
  }
  return marks;
}

/// The last message's text: its content, or the text of its last part.
Result<std::string*> final_text(Json& context) {
  const Error refusal =
      invalid_argument("continue_final_message needs a last message with text content", "continue_final_message");
  if (!context.contains("messages") || !context["messages"].is_array() || context["messages"].empty()) return refusal;
  Json& message = context["messages"].back();
  if (!message.is_object() || !message.contains("content")) return refusal;
  Json* content = &message["content"];
  if (content->is_array() && !content->empty() && content->back().is_object() && content->back().contains("text")) {
    content = &content->back()["text"];
  }
  if (!content->is_string()) return refusal;
  return content->get_ptr<std::string*>();
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// Cuts the rendered chat where the last message's text ends, as transformers does.
Status cut_after_final_text(std::string& rendered, std::string_view final_text) {
  const std::string_view tag = trimmed(kContinueTag);
  const size_t at = rendered.rfind(tag);
  if (at == std::string::npos || rendered.find(trimmed(final_text)) == std::string::npos) {
    return invalid_argument("continue_final_message: this chat template does not keep the text of the last message",
                            "continue_final_message");
  }
  const bool keeps_space = std::string_view(rendered).substr(at).starts_with(kContinueTag);
  rendered.resize(at);
  if (!keeps_space) rendered.resize(rendered.find_last_not_of(" \t\r\n\v\f") + 1);
  return {};
}

}  // namespace

Result<ChatPrompt> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template, Json context,
                               const ChatPromptOptions& options) {
  SpecialTextMarks marks;
  if (options.user_text == SpecialText::kLiteral) {
    QUIRE_ASSIGN_OR_RETURN(marks, mark_request(tokenizer, context));
  }
  std::string continued;
  if (options.continue_final_message) {
    QUIRE_ASSIGN_OR_RETURN(std::string * text, final_text(context));
    continued = *text;
    *text += kContinueTag;
  }
  QUIRE_ASSIGN_OR_RETURN(std::string rendered, chat_template.render(context));
  if (options.continue_final_message) QUIRE_RETURN_IF_ERROR(cut_after_final_text(rendered, continued));
  ChatPrompt prompt;
  QUIRE_ASSIGN_OR_RETURN(prompt.token_ids, tokenizer.encode_marked(rendered, false, marks));
  QUIRE_ASSIGN_OR_RETURN(prompt.text, tokenizer.unmark_special_text(rendered, marks));
  return prompt;
}

}  // namespace quire
