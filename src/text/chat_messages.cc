#include "text/chat_messages.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

/// Deepest nesting of arguments given as JSON text; the template's own limit is a little higher.
constexpr int kArgumentsDepth = 64;

Result<std::string> text_of_part(const Json& part, const std::string& path) {
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object()) return invalid_argument("a content part must be a string or an object", path);
  const std::string type = part.contains("type") && part["type"].is_string() ? part["type"].get<std::string>() : "";
  if (type.empty()) return invalid_argument("a content part needs a \"type\"", path + ".type");
  constexpr std::array kTextTypes = {"text", "input_text", "output_text"};
  const bool is_text = std::ranges::find(kTextTypes, type) != kTextTypes.end();
  if (!is_text && type != "refusal") {
    return unsupported("content parts of type '" + type + "' are not supported; quire takes text only", path + ".type");
  }
  const char* field = is_text ? "text" : "refusal";
  if (!part.contains(field) || !part[field].is_string()) {
    return invalid_argument("a content part of type '" + type + "' needs the string \"" + field + "\"",
                            path + "." + field);
  }
  return part[field].get<std::string>();
}

Result<Json> normalize_content(const Json& content, ContentFormat format, const std::string& path) {
  const auto as_part = [](std::string text) { return Json{{"type", "text"}, {"text", std::move(text)}}; };
  if (content.is_null()) return format == ContentFormat::kString ? Json("") : Json::array();
  if (content.is_string()) {
    return format == ContentFormat::kString ? content : Json::array({as_part(content.get<std::string>())});
  }
  if (!content.is_array()) return invalid_argument("content must be a string or a list of parts", path);
  std::string text;
  Json parts = Json::array();
  for (size_t i = 0; i < content.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(std::string part, text_of_part(content[i], path + "[" + std::to_string(i) + "]"));
    text += (i == 0 ? "" : "\n") + part;
    parts.push_back(as_part(std::move(part)));
  }
  return format == ContentFormat::kString ? Json(std::move(text)) : parts;
}

bool nested_deeper_than(std::string_view text, int limit) {
  int depth = 0, deepest = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest > limit;
}

/// OpenAI's clients send arguments as JSON text; templates iterate over them.
void parse_tool_arguments(Json& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (Json& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Json& function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    const auto text = function["arguments"].get<std::string>();
    if (nested_deeper_than(text, kArgumentsDepth)) continue;
    Json arguments = Json::parse(text, nullptr, false);
    if (arguments.is_object()) function["arguments"] = std::move(arguments);
  }
}

Result<Json> normalize_message(const Json& message, ContentFormat format, const std::string& path) {
  if (!message.is_object()) return invalid_argument("a message must be an object", path);
  if (!message.contains("role") || !message["role"].is_string()) {
    return invalid_argument("a message needs the string \"role\"", path + ".role");
  }
  Json result = Json::object();
  for (const auto& [key, value] : message.items()) {
    if (key == "content") {
      QUIRE_ASSIGN_OR_RETURN(result[key], normalize_content(value, format, path + ".content"));
    } else if (!value.is_null()) {
      result[key] = value;
    }
  }
  parse_tool_arguments(result);
  return result;
}

}  // namespace

ContentFormat content_format_of(std::string_view template_source) {
  static const std::regex kLoop(R"(\bfor\s+\w+\s+in\s+\w+(\.content|\[\s*['"]content['"]\s*\]))");
  static const std::regex kAsksForString(R"(content(['"]\s*\])?\s+is\s+(not\s+)?string)");
  if (template_source.size() > (1u << 20)) return ContentFormat::kString;
  // The expressions look at short pieces only: std::regex recurses along a match.
  const std::string source(template_source);
  const bool loops = std::regex_search(source, kLoop);
  return loops && !std::regex_search(source, kAsksForString) ? ContentFormat::kParts : ContentFormat::kString;
}

Result<Json> normalize_messages(const Json& messages, ContentFormat format) {
  if (!messages.is_array()) return invalid_argument("messages must be a list", "messages");
  Json result = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(Json message, normalize_message(messages[i], format, "messages[" + std::to_string(i) + "]"));
    result.push_back(std::move(message));
  }
  return result;
}

}  // namespace quire
