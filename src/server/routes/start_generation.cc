// Ids, token names, metrics: what a generation is given on its way.
#include "server/routes/start_generation.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "server/generation.h"

namespace quire {

namespace {

/// How logprobs name a token: its own text, or "token_id:N" where the request asks for that.
std::function<std::string(int32_t)> token_namer(const ServingBackend& backend, bool as_ids) {
  if (as_ids) return [](int32_t id) { return fmt::format("token_id:{}", id); };
  return [&backend](int32_t id) {
    const auto text = backend.decode({&id, 1}, false);
    return text.ok() ? text.value() : std::string();
  };
}

/// A value of a logprob costs a few hundred bytes until it is sent.
constexpr int64_t kMostLogprobs = 2'000'000;

/// One request may not ask for more logprobs than the server can hold beside all else.
Status judge_logprobs(const ServingBackend& backend, const GenerationFields& fields,
                      const std::vector<std::vector<int32_t>>& prompts) {
  const auto each = [&backend](const std::optional<int64_t>& count) {
    if (!count) return int64_t{0};
    return 1 + (*count < 0 ? backend.rules().vocab_size : *count);
  };
  const auto each_output = [&](const SamplingParams& sampling) {
    const auto chosen = static_cast<int64_t>(sampling.logprob_token_ids.size());
    return chosen > 0 ? 1 + chosen : each(sampling.logprobs);
  };
  const int64_t context_length = backend.limits().max_model_len;
  int64_t values = 0;
  for (const std::vector<int32_t>& prompt : prompts) {
    const auto length = std::min(static_cast<int64_t>(prompt.size()), context_length);
    const int64_t output = std::min(fields.sampling.max_tokens.value_or(context_length), context_length - length);
    values += length * each(fields.sampling.prompt_logprobs);
    if (!fields.stream) values += fields.sampling.n * output * each_output(fields.sampling);
  }
  if (values <= kMostLogprobs) return {};
  return invalid_argument(
      fmt::format("The request asks for up to {} logprobs, but one answer holds at most {}; ask for fewer of them, "
                  "fewer prompts or fewer tokens.",
                  values, kMostLogprobs),
      fields.sampling.prompt_logprobs ? "prompt_logprobs" : "logprobs");
}

/// Every choice is a request of its own to the engine, with a copy of the prompt.
constexpr int64_t kMostPromptTokens = int64_t{1} << 24;

Status judge_copies(const GenerationFields& fields, const std::vector<std::vector<int32_t>>& prompts) {
  int64_t tokens = 0;
  for (const std::vector<int32_t>& prompt : prompts) tokens += static_cast<int64_t>(prompt.size());
  if (fields.sampling.n == 1 || tokens * fields.sampling.n <= kMostPromptTokens) return {};
  return invalid_argument(
      fmt::format("n is {} for {} prompt tokens, but the choices of one request may together have at most {}; lower n.",
                  fields.sampling.n, tokens, kMostPromptTokens),
      "n");
}

Generation::Observer metrics_observer(ServerContext& context, size_t choices, const SamplingParams& sampling) {
  auto requests = std::make_shared<std::vector<Metrics::Request>>();
  for (size_t i = 0; i < choices; ++i) requests->emplace_back(*context.metrics, sampling.max_tokens);
  return [requests, metrics = context.metrics](size_t choice, const TextOutput& output) {
    (*requests)[choice].observe(output);
  };
}

}  // namespace

Result<ResponseInfo> make_response_info(const ServerContext& context, const ModelChoice& model,
                                        const GenerationFields& fields, const char* id_prefix,
                                        std::vector<std::vector<int32_t>> prompts) {
  QUIRE_RETURN_IF_ERROR(judge_copies(fields, prompts));
  QUIRE_RETURN_IF_ERROR(judge_logprobs(context.backend, fields, prompts));
  ResponseInfo info;
  info.model = model.name;
  info.adapter_id = model.adapter != nullptr ? model.adapter->id : 0;
  info.id = fmt::format("{}-{}", id_prefix, fields.request_id);
  info.created = unix_time();
  info.prompts = std::move(prompts);
  info.n = fields.sampling.n;
  info.return_token_ids = fields.return_token_ids;
  info.include_usage = fields.include_usage;
  info.continuous_usage_stats = fields.continuous_usage_stats;
  info.token_name = token_namer(context.backend, fields.return_tokens_as_token_ids);
  return info;
}

void start_generation(ServerContext& context, const ModelChoice& model, const GenerationFields& fields,
                      std::unique_ptr<ResponseFormat> format, const std::shared_ptr<ResponseWriter>& writer) {
  const ResponseInfo& info = format->info();
  std::vector<TextRequest> requests;
  for (const std::vector<int32_t>& prompt : info.prompts) {
    TextRequest request;
    // Clients may repeat their ids; the engine's must be unique.
    request.id = fmt::format("{}-{}", info.id, context.next_request.fetch_add(1));
    request.prompt = prompt;
    request.sampling = fields.sampling;
    request.priority = fields.priority;
    request.cache_salt = fields.cache_salt;
    request.adapter = model.adapter;
    requests.push_back(std::move(request));
  }
  const HttpHeaders headers = {{"X-Request-Id", info.id.substr(info.id.find('-') + 1)}};
  const size_t choices = info.choices();
  if (model.adapter != nullptr) {
    context.metrics->count_adapter_requests(model.name, static_cast<int64_t>(choices));
    spdlog::debug("Request {}: LoRA adapter '{}', load {}", info.id, model.name, model.adapter->id);
  }
  Generation::start(context.backend, context.answer_pool, std::move(requests), std::move(format), writer, fields.stream,
                    headers, metrics_observer(context, choices, fields.sampling));
}

}  // namespace quire
