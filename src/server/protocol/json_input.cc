// Parsing with a look at the shape first, so that nesting and key counts are bounded before memory is spent on them.
#include "server/protocol/json_input.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

/// Walks the brackets and colons outside of strings. What is no JSON at all is left to the parser to refuse.
Status check_shape(std::string_view body, const JsonLimits& limits) {
  std::vector<size_t> keys;
  bool in_string = false;
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') keys.push_back(0);
    if ((c == '}' || c == ']') && !keys.empty()) keys.pop_back();
    if (c == ':' && !keys.empty()) ++keys.back();
    if (keys.size() > limits.max_depth) {
      return invalid_argument(fmt::format("The body's JSON is nested deeper than {} levels.", limits.max_depth));
    }
    if (!keys.empty() && keys.back() > limits.max_keys_per_object) {
      return invalid_argument(
          fmt::format("An object in the body's JSON has more than {} keys.", limits.max_keys_per_object));
    }
  }
  return {};
}

/// The parser's own sentence without its exception's prefix, valid and short whatever the body was.
std::string parser_message(const std::string& what) {
  const size_t bracket = what.find("] ");
  std::string message = bracket == std::string::npos ? what : what.substr(bracket + 2);
  if (message.size() > 300) message.resize(300);
  return message;
}

}  // namespace

Result<Json> parse_json_object(std::string_view body, const JsonLimits& limits) {
  QUIRE_RETURN_IF_ERROR(check_shape(body, limits));
  try {
    Json value = Json::parse(body);
    if (!value.is_object()) return invalid_argument("The body must be a JSON object.");
    return value;
  } catch (const Json::exception& error) {
    return invalid_argument("The body is no valid JSON: " + parser_message(error.what()));
  }
}

std::string to_wire(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string excerpt(const Json& value, size_t bytes) {
  std::string text = to_wire(value);
  if (text.size() <= bytes) return text;
  size_t end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // never half a character
  return text.substr(0, end) + "...";
}

}  // namespace quire
