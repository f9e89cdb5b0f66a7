// Puts the parts together: gate, router, pool, metrics, HTTP.
#include "server/server.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "server/auth.h"
#include "server/response/error_response.h"
#include "server/routes/routes.h"
#include "server/stats_log.h"

namespace quire {

namespace {

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

std::vector<std::string> model_names(const ServerOptions& options, const ServingBackend& backend) {
  if (!options.served_model_names.empty()) return options.served_model_names;
  return {backend.model_root()};
}

AdapterUpdates adapter_updates(const ServerOptions& options, const ServingBackend& backend) {
  if (backend.adapters() == nullptr) return AdapterUpdates::kNoLora;
  const bool trusted = !options.api_keys.empty() || is_loopback(options.host);
  return trusted ? AdapterUpdates::kAllowed : AdapterUpdates::kForbidden;
}

}  // namespace

struct Server::Impl {
  Impl(const ServerOptions& server_options, ServingBackend& backend)
      : options(server_options),
        keys(server_options.api_keys),
        cors(server_options.cors),
        names(model_names(server_options, backend)),
        metrics(std::make_shared<Metrics>(names.front(), backend.limits())),
        pool(server_options.text_threads, server_options.max_queued_texts),
        answer_pool(1, server_options.max_queued_texts),
        context{backend, metrics, pool, answer_pool, names, server_options.version, unix_time()},
        router(make_router(context)),
        stats_log([&backend] { return backend.stats(); }, server_options.stats_interval) {
    context.adapter_updates = adapter_updates(options, backend);
    context.has_api_keys = !options.api_keys.empty();
    if (AdapterCatalog* adapters = backend.adapters()) adapters->reserve_names(names);
  }
  ~Impl() { context.gate->close(); }

  HttpCallbacks callbacks() {
    HttpCallbacks callbacks;
    callbacks.response_headers = [this](const HttpRequest& request) {
      HttpHeaders headers = cors.headers(request);
      if (options.enable_request_id_headers) {
        headers.emplace_back("X-Request-Id", choose_request_id({}, request.header("X-Request-Id")));
      }
      return headers;
    };
    callbacks.gate = [this](const HttpRequest& request) -> std::optional<HttpResponse> {
      if (auto answer = cors.preflight(request)) return answer;  // browsers send it without a key
      if (const auto refusal = keys.refuse(request)) return error_response(401, *refusal, {}, "invalid_api_key");
      return std::nullopt;
    };
    callbacks.handler = [this](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
      router.handle(std::move(request), std::move(writer));
    };
    callbacks.failure = [](int status, const std::string& message) { return error_response(status, message); };
    return callbacks;
  }

  const ServerOptions options;
  const ApiKeys keys;
  const Cors cors;
  const std::vector<std::string> names;
  const std::shared_ptr<Metrics> metrics;
  TaskPool pool;
  TaskPool answer_pool;
  ServerContext context;
  const Router router;
  StatsLog stats_log;
  std::unique_ptr<HttpServer> http;  // last: its threads use all of the above
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { stop(); }

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, ServingBackend& backend,
                                              BoundAddress address) {
  auto impl = std::make_unique<Impl>(options, backend);
  QUIRE_ASSIGN_OR_RETURN(impl->http, HttpServer::start({options.io_threads, options.limits, options.tls},
                                                       impl->callbacks(), std::move(address)));
  if (options.api_keys.empty() && !is_loopback(options.host)) {
    spdlog::warn(
        "Listening on {} without an API key: everybody who reaches this address can use the model. Set --api-key.",
        options.host);
  }
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

uint16_t Server::port() const { return impl_->http->port(); }

std::string Server::url() const {
  const std::string& host = impl_->options.host;
  const bool is_ipv6 = host.find(':') != std::string::npos;
  const char* const scheme = impl_->options.tls == nullptr ? "http" : "https";
  return fmt::format("{}://{}:{}", scheme, is_ipv6 ? "[" + host + "]" : host, port());
}

void Server::begin_drain() { impl_->context.draining.store(true); }
bool Server::idle() const { return impl_->http->active_requests() == 0; }
void Server::observe_step(int64_t tokens) { impl_->metrics->observe_step(tokens); }

void Server::stop() {
  if (impl_->http) impl_->http->stop();
}

}  // namespace quire
