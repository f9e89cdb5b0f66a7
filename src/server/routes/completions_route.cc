// POST /v1/completions.
#include <nlohmann/json.hpp>

#include "server/protocol/completion_request.h"
#include "server/protocol/json_input.h"
#include "server/response/completion_format.h"
#include "server/response/error_response.h"
#include "server/routes/routes.h"
#include "server/routes/start_generation.h"

namespace quire {

namespace {

Result<std::vector<std::vector<int32_t>>> tokenize(const ServingBackend& backend, CompletionRequest& request) {
  std::vector<std::vector<int32_t>> prompts;
  for (CompletionPrompt& prompt : request.prompts) {
    if (auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) {
      prompts.push_back(std::move(*ids));
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                           backend.encode(std::get<std::string>(prompt), request.add_special_tokens));
    if (ids.empty()) return invalid_argument("The prompt is empty: it needs at least one token.", "prompt");
    prompts.push_back(std::move(ids));
    // The engine will refuse this one, and with it the request: the rest need not be tokenized.
    if (static_cast<int64_t>(prompts.back().size()) >= backend.limits().max_model_len) {
      return std::vector<std::vector<int32_t>>{std::move(prompts.back())};
    }
  }
  return prompts;
}

Status generate(ServerContext& context, CompletionRequest& request, const ModelChoice& model,
                const std::shared_ptr<ResponseWriter>& writer) {
  QUIRE_ASSIGN_OR_RETURN(auto prompts, tokenize(context.backend, request));
  QUIRE_ASSIGN_OR_RETURN(ResponseInfo info, make_response_info(context, model, request, "cmpl", std::move(prompts)));
  auto format = std::make_unique<CompletionFormat>(std::move(info), request.sampling.logprobs.has_value(),
                                                   request.sampling.prompt_logprobs.has_value());
  start_generation(context, model, request, std::move(format), writer);
  return {};
}

Status start(ServerContext& context, const HttpRequest& http, const std::shared_ptr<ResponseWriter>& writer) {
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::ordered_json body, parse_json_object(http.body));
  QUIRE_ASSIGN_OR_RETURN(CompletionRequest parsed, parse_completion_request(body, context.backend.rules()));
  const auto request = std::make_shared<CompletionRequest>(std::move(parsed));
  request->request_id = choose_request_id(request->request_id, http.header("X-Request-Id"));
  with_model(context, request->model, writer, [&context, request, writer](const ModelChoice& model) {
    return generate(context, *request, model, writer);
  });
  return {};
}

}  // namespace

void serve_completions(ServerContext& context, const HttpRequest& request,
                       const std::shared_ptr<ResponseWriter>& writer) {
  if (const auto status = start(context, request, writer); !status.ok()) writer->send(error_response(status.error()));
}

}  // namespace quire
