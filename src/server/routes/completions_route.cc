// POST /v1/completions.
#include <nlohmann/json.hpp>

#include "api/prompt_truncation.h"
#include "server/protocol/completion_request.h"
#include "server/protocol/json_input.h"
#include "server/response/completion_format.h"
#include "server/response/error_response.h"
#include "server/routes/routes.h"
#include "server/routes/start_generation.h"

namespace quire {

namespace {

Result<std::vector<int32_t>> prompt_ids(const ServingBackend& backend, const CompletionRequest& request,
                                        const CompletionPrompt& prompt) {
  const int64_t max_model_len = backend.limits().max_model_len;
  if (const auto* given = std::get_if<std::vector<int32_t>>(&prompt)) {
    std::vector<int32_t> ids = *given;
    QUIRE_ASSIGN_OR_RETURN(const std::optional<size_t> kept, kept_prompt_tokens(request.sampling, max_model_len));
    if (kept) truncate_prompt(ids, *kept, request.sampling.truncation_side);
    return ids;
  }
  const EncodeText encode = [&](std::string_view text, bool add) { return backend.encode(text, add); };
  QUIRE_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                         encode_truncated(encode, std::get<std::string>(prompt), request.add_special_tokens,
                                          request.sampling, max_model_len));
  if (ids.empty()) return invalid_argument("The prompt is empty: it needs at least one token.", "prompt");
  return ids;
}

Result<std::vector<std::vector<int32_t>>> tokenize(const ServingBackend& backend, const CompletionRequest& request) {
  std::vector<std::vector<int32_t>> prompts;
  for (const CompletionPrompt& prompt : request.prompts) {
    QUIRE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, prompt_ids(backend, request, prompt));
    prompts.push_back(std::move(ids));
    // The engine will refuse this one, and with it the request: the rest need not be tokenized.
    if (static_cast<int64_t>(prompts.back().size()) >= backend.limits().max_model_len) {
      return std::vector<std::vector<int32_t>>{std::move(prompts.back())};
    }
  }
  return prompts;
}

/// Text that was given comes back as it was, unless it was cut; ids come back with the text of special tokens.
Result<std::vector<EchoedPrompt>> echo(const ServingBackend& backend, const CompletionRequest& request,
                                       const std::vector<std::vector<int32_t>>& prompts) {
  std::vector<EchoedPrompt> echoed;
  if (!request.echo) return echoed;
  for (size_t i = 0; i < prompts.size(); ++i) {
    EchoedPrompt& prompt = echoed.emplace_back();
    const auto* text = std::get_if<std::string>(&request.prompts[i]);
    if (text != nullptr && !request.sampling.truncate_prompt_tokens) {
      prompt.text = *text;
    } else {
      QUIRE_ASSIGN_OR_RETURN(prompt.text, backend.decode(prompts[i], text != nullptr));
    }
    if (request.sampling.logprobs) prompt.token_texts = backend.token_texts(prompts[i], text != nullptr);
  }
  return echoed;
}

Status generate(ServerContext& context, const CompletionRequest& request, const ModelChoice& model,
                const std::shared_ptr<ResponseWriter>& writer) {
  QUIRE_ASSIGN_OR_RETURN(auto prompts, tokenize(context.backend, request));
  CompletionFormat::Options options;
  options.logprobs = request.sampling.logprobs.has_value();
  options.prompt_logprobs = request.prompt_logprobs;
  options.prompt_only = request.prompt_only;
  QUIRE_ASSIGN_OR_RETURN(options.echoed, echo(context.backend, request, prompts));
  QUIRE_ASSIGN_OR_RETURN(ResponseInfo info, make_response_info(context, model, request, "cmpl", std::move(prompts)));
  auto format = std::make_unique<CompletionFormat>(std::move(info), std::move(options));
  start_generation(context, model, request, std::move(format), writer);
  return {};
}

Status start_completion(ServerContext& context, const HttpRequest& http, const std::shared_ptr<ResponseWriter>& writer) {
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
  if (const auto status = start_completion(context, request, writer); !status.ok()) writer->send(error_response(status.error()));
}

}  // namespace quire
