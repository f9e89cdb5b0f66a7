// The table of endpoints, and where each runs.
#include "server/routes/routes.h"

#include <spdlog/spdlog.h>

#include "server/response/error_response.h"

namespace quire {

namespace {

using Serve = void (*)(ServerContext&, const HttpRequest&, const std::shared_ptr<ResponseWriter>&);

/// Answers 500 for a fault of ours, so that no request leaves the server without an answer.
void guarded(Serve serve, ServerContext& context, const HttpRequest& request,
             const std::shared_ptr<ResponseWriter>& writer) {
  try {
    serve(context, request, writer);
  } catch (const std::exception& fault) {
    spdlog::error("{} {} failed: {}", request.method, request.path, fault.what());
    writer->send(error_response(500, "Internal server error."));
  }
}

Router::Handler inline_handler(ServerContext& context, Serve serve) {
  return [&context, serve](const HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer) {
    guarded(serve, context, request, writer);
  };
}

enum class Draining : uint8_t { kRefuse, kAnswer };

Router::Handler pooled_handler(ServerContext& context, Serve serve, Draining draining = Draining::kRefuse) {
  return [&context, serve, draining](HttpRequest request, const std::shared_ptr<ResponseWriter>& writer) {
    if (draining == Draining::kRefuse && context.draining.load())
      return writer->send(error_response(503, "The server is shutting down."));
    const auto shared_request = std::make_shared<HttpRequest>(std::move(request));
    const bool queued = context.pool.submit(
        [&context, serve, shared_request, writer] { guarded(serve, context, *shared_request, writer); });
    if (!queued) writer->send(error_response(503, "The server has too many requests to read; try again."));
  };
}

}  // namespace

Router make_router(ServerContext& context) {
  Router router;
  router.add("POST", "/v1/completions", pooled_handler(context, serve_completions));
  router.add("POST", "/v1/chat/completions", pooled_handler(context, serve_chat_completions));
  router.add("POST", "/tokenize", pooled_handler(context, serve_tokenize));
  router.add("POST", "/detokenize", pooled_handler(context, serve_detokenize));
  router.add("POST", "/v1/load_lora_adapter", pooled_handler(context, serve_load_lora_adapter));
  router.add("POST", "/v1/unload_lora_adapter", pooled_handler(context, serve_unload_lora_adapter));
  router.add("GET", "/v1/models", pooled_handler(context, serve_models, Draining::kAnswer));
  router.add_prefix("GET", "/v1/models/", pooled_handler(context, serve_model, Draining::kAnswer));
  router.add("GET", "/health", inline_handler(context, serve_health));
  router.add("GET", "/ping", inline_handler(context, serve_health));
  router.add("POST", "/ping", inline_handler(context, serve_health));
  router.add("GET", "/version", inline_handler(context, serve_version));
  router.add("GET", "/metrics", inline_handler(context, serve_metrics));
  return router;
}

}  // namespace quire
