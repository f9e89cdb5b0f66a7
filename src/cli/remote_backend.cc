// The TextBackend over HTTP.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/http_client.h"
#include "cli/interrupt.h"
#include "cli/openai_stream.h"
#include "cli/sse_parser.h"
#include "cli/text_backend.h"

namespace quire::cli {
namespace {

using std::chrono::steady_clock;

double since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

class RemoteBackend : public TextBackend {
 public:
  RemoteBackend(HttpUrl url, std::string model, std::string api_key, TextOptions options)
      : url_(std::move(url)), model_(std::move(model)), api_key_(std::move(api_key)), options_(std::move(options)) {}

  std::string model_name() const override { return model_; }

  Result<GenerationStats> chat(const nlohmann::ordered_json& messages, const TextSink& sink) override {
    return stream("/chat/completions", {{"messages", messages}}, sink);
  }

  Result<GenerationStats> complete(const std::string& prompt, const TextSink& sink) override {
    return stream("/completions", {{"prompt", prompt}}, sink);
  }

 private:
  Result<GenerationStats> stream(const std::string& route, nlohmann::ordered_json body, const TextSink& sink) {
    body["model"] = model_;
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    if (options_.max_tokens) body["max_tokens"] = *options_.max_tokens;
    if (options_.temperature) body["temperature"] = *options_.temperature;
    GenerationStats stats;
    std::string failure;
    const auto begin = steady_clock::now();
    SseParser parser([&](std::string_view data) {
      if (data != "[DONE]") take(data, begin, stats, failure, sink);
    });
    // A client of its own for each answer: one that was interrupted leaves its connection half read.
    HttpClient client(url_);
    client.start({.method = "POST",
                  .path = url_.path + route,
                  .headers = authorization(api_key_),
                  .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)},
                 {.on_data =
                      [&](std::string_view bytes) {
                        if (!failure.empty()) return;
                        const Status status = parser.feed(bytes);
                        if (!status.ok()) failure = status.error().message;
                      },
                  .on_done =
                      [&](HttpAnswer&& answer) {
                        if (failure.empty() && !answer.ok()) failure = describe_failure(answer);
                      }});
    const InterruptGuard guard;
    client.run(InterruptGuard::interrupted);
    if (!failure.empty()) return Error{ErrorKind::kUnavailable, failure, {}};
    stats.seconds = since(begin);
    return stats;
  }

  static void take(std::string_view data, steady_clock::time_point begin, GenerationStats& stats, std::string& failure,
                   const TextSink& sink) {
    const auto delta = parse_stream_delta(data);
    if (!delta.ok() || !delta->error.empty()) {
      failure = delta.ok() ? delta->error : delta.error().message;
      return;
    }
    if (delta->has_tokens && stats.first_token_seconds == 0) stats.first_token_seconds = since(begin);
    stats.prompt_tokens = delta->prompt_tokens.value_or(stats.prompt_tokens);
    stats.output_tokens = delta->completion_tokens.value_or(stats.output_tokens);
    if (!delta->text.empty()) sink(delta->text);
  }

  HttpUrl url_;
  std::string model_, api_key_;
  TextOptions options_;
};

}  // namespace

Result<std::unique_ptr<TextBackend>> connect_backend(const std::string& url, const std::string& model_name,
                                                     const std::string& api_key, const TextOptions& options) {
  const auto parsed = parse_http_url(url);
  if (!parsed.ok()) return invalid_argument("--url: " + parsed.error().message, "--url");
  HttpClient client(*parsed, 60);
  const auto model = find_served_model(client, parsed->path, api_key, model_name);
  if (!model.ok()) {
    return Error{ErrorKind::kUnavailable,
                 fmt::format("No model to talk to at {}: {}; start a server with 'quire serve MODEL', give another "
                             "address with --url, or a model to load here with --model",
                             url, model.error().message),
                 {}};
  }
  return std::unique_ptr<TextBackend>(std::make_unique<RemoteBackend>(*parsed, model->id, api_key, options));
}

}  // namespace quire::cli
