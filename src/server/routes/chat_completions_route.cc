// POST /v1/chat/completions.
#include <nlohmann/json.hpp>

#include "api/prompt_truncation.h"
#include "server/protocol/chat_request.h"
#include "server/protocol/json_input.h"
#include "server/response/chat_format.h"
#include "server/response/error_response.h"
#include "server/routes/routes.h"
#include "server/routes/start_generation.h"

namespace quire {

namespace {

/// The text of the last message, where the assistant said it.
std::string last_answer(const Conversation& conversation) {
  const nlohmann::ordered_json& message = conversation.messages.back();
  if (message["role"] != "assistant" || !message.contains("content")) return {};
  const nlohmann::ordered_json& content = message["content"];
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (content.is_array()) {
    for (const nlohmann::ordered_json& part : content) text += part["text"].get<std::string>();
  }
  return text;
}

Status generate(ServerContext& context, const ChatRequest& request, const ModelChoice& model,
                const std::shared_ptr<ResponseWriter>& writer) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, context.backend.encode_chat(request.prompt));
  if (ids.empty()) return invalid_argument("The chat template renders these messages to an empty prompt.", "messages");
  QUIRE_ASSIGN_OR_RETURN(const std::optional<size_t> kept,
                         kept_prompt_tokens(request.sampling, context.backend.limits().max_model_len));
  if (kept) truncate_prompt(ids, *kept, request.sampling.truncation_side);
  std::vector<std::vector<int32_t>> prompts;
  prompts.push_back(std::move(ids));
  QUIRE_ASSIGN_OR_RETURN(ResponseInfo info,
                         make_response_info(context, model, request, "chatcmpl", std::move(prompts)));
  auto format =
      std::make_unique<ChatFormat>(std::move(info), request.logprobs, request.sampling.prompt_logprobs.has_value(),
                                   request.echo ? last_answer(request.prompt) : std::string());
  start_generation(context, model, request, std::move(format), writer);
  return {};
}

Status start_chat(ServerContext& context, const HttpRequest& http, const std::shared_ptr<ResponseWriter>& writer) {
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::ordered_json body, parse_json_object(http.body));
  QUIRE_ASSIGN_OR_RETURN(ChatRequest parsed, parse_chat_request(body, context.backend.rules()));
  const auto request = std::make_shared<ChatRequest>(std::move(parsed));
  request->request_id = choose_request_id(request->request_id, http.header("X-Request-Id"));
  with_model(context, request->model, writer, [&context, request, writer](const ModelChoice& model) {
    return generate(context, *request, model, writer);
  });
  return {};
}

}  // namespace

void serve_chat_completions(ServerContext& context, const HttpRequest& request,
                            const std::shared_ptr<ResponseWriter>& writer) {
  if (const auto status = start_chat(context, request, writer); !status.ok()) writer->send(error_response(status.error()));
}

}  // namespace quire
