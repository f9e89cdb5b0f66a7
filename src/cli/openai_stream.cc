#include "cli/openai_stream.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace quire::cli {
namespace {

using nlohmann::json;

std::string string_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<int64_t> integer_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

/// The message of {"error": {"message"}}, {"error": "..."}, {"message"} or {"detail"}; "" for none.
std::string error_message(const json& object) {
  if (const auto error = object.find("error"); error != object.end() && !error->is_null()) {
    if (error->is_string()) return error->get<std::string>();
    const std::string message = error->is_object() ? string_at(*error, "message") : std::string();
    return message.empty() ? error->dump(-1, ' ', false, json::error_handler_t::replace) : message;
  }
  if (string_at(object, "object") == "error") return string_at(object, "message");
  return {};
}

void read_choice(const json& choice, StreamDelta& delta) {
  delta.finish_reason = string_at(choice, "finish_reason");
  const auto message = choice.find("delta");
  if (message == choice.end() || !message->is_object()) {
    delta.text = string_at(choice, "text");
    delta.has_tokens = choice.contains("text") && (!delta.text.empty() || delta.finish_reason.empty());
    return;
  }
  delta.text = string_at(*message, "content");
  const bool reasons = !string_at(*message, "reasoning_content").empty() || !string_at(*message, "reasoning").empty();
  const bool opening = message->contains("role") && delta.text.empty();
  delta.has_tokens = !delta.text.empty() || reasons || (!opening && delta.finish_reason.empty());
}

}  // namespace

Result<StreamDelta> parse_stream_delta(std::string_view data) {
  const json event = json::parse(data, nullptr, false);
  if (!event.is_object()) return invalid_argument("the server sent an event that is no JSON object");
  StreamDelta delta;
  delta.error = error_message(event);
  if (const auto choices = event.find("choices");
      choices != event.end() && choices->is_array() && !choices->empty() && choices->front().is_object()) {
    read_choice(choices->front(), delta);
  }
  if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object()) {
    delta.prompt_tokens = integer_at(*usage, "prompt_tokens");
    delta.completion_tokens = integer_at(*usage, "completion_tokens");
  }
  return delta;
}

std::string describe_failure(const HttpAnswer& answer) {
  if (!answer.error.empty()) return answer.error;
  const json body = json::parse(answer.body, nullptr, false);
  std::string message;
  if (body.is_object()) {
    message = error_message(body);
    if (message.empty()) message = string_at(body, "message");
    if (message.empty()) message = string_at(body, "detail");
  }
  if (message.empty()) message = answer.body.substr(0, 200);
  return message.empty() ? fmt::format("the server answered {}", answer.status)
                         : fmt::format("the server answered {}: {}", answer.status, message);
}

Result<ServedModel> find_served_model(HttpClient& client, const std::string& path_prefix, const std::string& api_key,
                                      const std::string& wanted) {
  const HttpAnswer answer =
      client.call({.method = "GET", .path = path_prefix + "/models", .headers = authorization(api_key), .body = {}});
  if (!answer.ok()) return Error{ErrorKind::kUnavailable, describe_failure(answer), {}};
  const json body = json::parse(answer.body, nullptr, false);
  if (body.is_object() && body.contains("data") && body["data"].is_array()) {
    for (const json& entry : body["data"]) {
      if (!entry.is_object() || string_at(entry, "id").empty()) continue;
      ServedModel model{string_at(entry, "id"), integer_at(entry, "vocab_size"), integer_at(entry, "max_model_len")};
      if (!wanted.empty() && model.id != wanted) continue;
      if (const auto meta = entry.find("meta"); !model.vocab_size && meta != entry.end() && meta->is_object()) {
        model.vocab_size = integer_at(*meta, "n_vocab");
      }
      return model;
    }
  }
  if (wanted.empty()) return not_found("the server lists no model at " + path_prefix + "/models");
  return not_found(fmt::format("the server does not list a model '{}'", wanted));
}

std::vector<std::pair<std::string, std::string>> authorization(const std::string& api_key) {
  if (api_key.empty()) return {};
  return {{"Authorization", "Bearer " + api_key}};
}

std::string client_api_key(const std::string& flag_value) {
  if (!flag_value.empty()) return flag_value;
  for (const char* name : {"VLLM_API_KEY", "QUIRE_API_KEY", "OPENAI_API_KEY"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return {};
}

}  // namespace quire::cli
