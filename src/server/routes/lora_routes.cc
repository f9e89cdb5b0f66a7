// POST /v1/load_lora_adapter and POST /v1/unload_lora_adapter, with vLLM's bodies and replies.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "checkpoint/printable.h"
#include "server/protocol/json_input.h"
#include "server/protocol/lora_request.h"
#include "server/response/error_response.h"
#include "server/routes/routes.h"

namespace quire {

namespace {

/// vLLM calls what is wrong with these bodies InvalidUserInput.
HttpResponse refusal(const Error& error) {
  nlohmann::ordered_json body = error_body(error);
  if (http_status(error.kind) == 400) body["error"]["type"] = "InvalidUserInput";
  HttpResponse response = error_response(error);
  response.body = to_wire(body);
  return response;
}

HttpResponse success(const std::string& name, const char* what) {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = fmt::format("Success: LoRA adapter '{}' {} successfully.", name, what);
  return response;
}

/// A response for those who may not change adapters. Where no key is asked for, being on this machine is what lets in,
/// and a web page in a browser on it is not meant by that.
std::optional<HttpResponse> refuse_updates(const ServerContext& context, const HttpRequest& request) {
  switch (context.adapter_updates) {
    case AdapterUpdates::kAllowed:
      if (context.has_api_keys || !request.header("Origin")) return std::nullopt;
      return error_response(403,
                            "Web pages (requests with an Origin) may load adapters only with an API key: --api-key.");
    case AdapterUpdates::kForbidden:
      return error_response(403,
                            "Adapters can be loaded over HTTP only where an API key is set (--api-key) or the server "
                            "listens on a loopback address.");
    case AdapterUpdates::kNoLora:
      break;
  }
  return error_response(404, "This server takes no LoRA adapters: start it with --enable-lora.");
}

Status load(ServerContext& context, const HttpRequest& http, const std::shared_ptr<ResponseWriter>& writer) {
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::ordered_json body, parse_json_object(http.body));
  QUIRE_ASSIGN_OR_RETURN(const LoadAdapterRequest request, parse_load_adapter_request(body));
  context.backend.adapters()->load(
      request.spec, request.in_place, [writer, name = request.spec.name](const Result<AdapterLease>& lease) {
        if (lease.ok()) return writer->send(success(name, "added"));
        spdlog::warn("LoRA adapter {} was not loaded: {}", quote_name(name), lease.error().message);
        writer->send(refusal(lease.error()));
      });
  return {};
}

Status unload(ServerContext& context, const HttpRequest& http, const std::shared_ptr<ResponseWriter>& writer) {
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::ordered_json body, parse_json_object(http.body));
  QUIRE_ASSIGN_OR_RETURN(const UnloadAdapterRequest request, parse_unload_adapter_request(body));
  QUIRE_ASSIGN_OR_RETURN(const std::string name, context.backend.adapters()->unload(request.name, request.id));
  writer->send(success(name, "removed"));
  return {};
}

void answer(ServerContext& context, const HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer,
            Status (*act)(ServerContext&, const HttpRequest&, const std::shared_ptr<ResponseWriter>&)) {
  if (auto response = refuse_updates(context, request)) return writer->send(std::move(*response));
  if (const Status status = act(context, request, writer); !status.ok()) writer->send(refusal(status.error()));
}

}  // namespace

void serve_load_lora_adapter(ServerContext& context, const HttpRequest& request,
                             const std::shared_ptr<ResponseWriter>& writer) {
  answer(context, request, writer, load);
}

void serve_unload_lora_adapter(ServerContext& context, const HttpRequest& request,
                               const std::shared_ptr<ResponseWriter>& writer) {
  answer(context, request, writer, unload);
}

}  // namespace quire
