// GET /health, /version and /metrics: what operators and their tools ask.
#include <nlohmann/json.hpp>

#include "server/protocol/json_input.h"
#include "server/response/error_response.h"
#include "server/routes/routes.h"

namespace quire {

void serve_health(ServerContext& context, const HttpRequest&, const std::shared_ptr<ResponseWriter>& writer) {
  if (context.draining.load()) return writer->send(error_response(503, "The server is shutting down."));
  if (!context.backend.healthy()) return writer->send(error_response(503, "The engine has stopped after a fault."));
  writer->send(HttpResponse{});
}

void serve_version(ServerContext& context, const HttpRequest&, const std::shared_ptr<ResponseWriter>& writer) {
  HttpResponse response;
  response.body = to_wire(nlohmann::ordered_json{{"version", context.version}});
  writer->send(std::move(response));
}

void serve_metrics(ServerContext& context, const HttpRequest&, const std::shared_ptr<ResponseWriter>& writer) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = context.metrics->serialize(context.backend.stats(), &context.backend);
  writer->send(std::move(response));
}

}  // namespace quire
