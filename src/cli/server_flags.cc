#include "cli/server_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/flag_values.h"
#include "cli/unbuilt_flags.h"
#include "cli/version.h"

namespace quire::cli {
namespace {

ValueSink into_seconds(std::chrono::seconds* target) {
  return [target](const std::string& text) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const int64_t seconds, parse_whole_number(text, 0, 86400));
    *target = std::chrono::seconds(seconds);
    return {};
  };
}

ValueSink into_client_certificate(TlsOptions::ClientCertificate* target) {
  return [target](const std::string& text) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const int64_t number, parse_whole_number(text, 0, 2));
    *target = static_cast<TlsOptions::ClientCertificate>(number);
    return {};
  };
}

/// A JSON list of strings, as vLLM takes it, or one plain text.
ValueSink into_names(std::vector<std::string>* target) {
  return [target](const std::string& text) -> Status {
    if (!text.starts_with('[')) {
      *target = {text};
      return {};
    }
    const auto list = nlohmann::json::parse(text, nullptr, false);
    const auto is_text = [](const nlohmann::json& item) { return item.is_string(); };
    if (!list.is_array() || !std::ranges::all_of(list, is_text))
      return invalid_argument(fmt::format("{} is no JSON list of strings, such as [\"https://example.org\"]", text));
    *target = list.get<std::vector<std::string>>();
    return {};
  };
}

ValueSink into_bytes(size_t* target, int64_t minimum) {
  return [target, minimum](const std::string& text) -> Status {
    int64_t size = 0;
    QUIRE_RETURN_IF_ERROR(into_size(&size, minimum)(text));
    *target = static_cast<size_t>(size);
    return {};
  };
}

void add_tls_flags(FlagSet& flags, TlsOptions& tls) {
  flags.group("TLS")
      .value("--ssl-certfile", "FILE", "Certificate (PEM): the server speaks HTTPS", into(&tls.certificate_file))
      .value("--ssl-keyfile", "FILE", "The certificate's private key (default: in the certificate's file)",
             into(&tls.key_file))
      .value("--ssl-ca-certs", "FILE", "Certificates that vouch for clients", into(&tls.ca_file))
      .value("--ssl-cert-reqs", "N", "Client certificates: 0 not asked for, 1 optional, 2 required (default: 0)",
             into_client_certificate(&tls.client_certificate));
}

void add_cors_flags(FlagSet& flags, CorsOptions& cors) {
  flags.group("CORS")
      .value("--allowed-origins", "JSON", "Origins of web pages that may read answers (default: [\"*\"], all)",
             into_names(&cors.allowed_origins))
      .value("--allowed-methods", "JSON", "Methods that they may use (default: [\"*\"])",
             into_names(&cors.allowed_methods))
      .value("--allowed-headers", "JSON", "Headers that they may send (default: [\"*\"])",
             into_names(&cors.allowed_headers))
      .flag("--allow-credentials", "They may send cookies and the like", &cors.allow_credentials);
}

void add_limit_flags(FlagSet& flags, HttpLimits& limits) {
  flags.group("Server")
      .value("--h11-max-incomplete-event-size", "BYTES", "The most that a request's headers may have (default: 64 KiB)",
             into_bytes(&limits.max_header_bytes, 1024))
      .value("--h11-max-header-count", "N", "The most headers that a request may have (default: 256)",
             into_bytes(&limits.max_headers, 1))
      .value("--max-request-body-size", "BYTES", "The most that a request's body may have (default: 32 MiB)",
             into_bytes(&limits.max_body_bytes, 1024));
}

}  // namespace

void add_server_flags(FlagSet& flags, ServerArguments& arguments) {
  ServerOptions& options = arguments.options;
  options.version = std::string(version());
  flags.group("Server")
      .value("--host", "HOST", "Address to listen on (default: 127.0.0.1; 0.0.0.0 or :: for all)", into(&options.host))
      .value("--port", "PORT", "Port to listen on, 0 for any that is free (default: 8000)",
             [&options](const std::string& text) -> Status {
               QUIRE_ASSIGN_OR_RETURN(const int64_t port, parse_whole_number(text, 0, 65535));
               options.port = static_cast<uint16_t>(port);
               return {};
             })
      .list("--api-key", "KEY",
            "Keys of which requests must carry one, /health and /metrics aside (default: VLLM_API_KEY, QUIRE_API_KEY, "
            "else "
            "open to all)",
            &options.api_keys)
      .list("--served-model-name", "NAME", "Names that requests may use; answers carry the first (default: MODEL)",
            &options.served_model_names)
      .value("--shutdown-timeout", "SECONDS", "How long running requests may go on after SIGTERM (default: 30)",
             into_seconds(&options.shutdown_timeout))
      .flag("--enable-request-id-headers", "X-Request-Id on every answer: the client's, or a random one",
            &options.enable_request_id_headers);
  add_limit_flags(flags, options.limits);
  add_tls_flags(flags, arguments.tls);
  add_cors_flags(flags, options.cors);
  flags.group("Log").flag("--disable-log-stats", "No line about throughput every ten seconds",
                          &arguments.disable_log_stats);
  add_unbuilt_server_flags(flags);
}

void settle_tls(ServerArguments& arguments) {
  const TlsOptions& tls = arguments.tls;
  const bool asks = tls.client_certificate != TlsOptions::ClientCertificate::kNone;
  if (tls.certificate_file.empty()) {
    for (const auto& [given, flag] :
         {std::pair(!tls.key_file.empty(), "--ssl-keyfile"), std::pair(!tls.ca_file.empty(), "--ssl-ca-certs"),
          std::pair(asks, "--ssl-cert-reqs")}) {
      if (given) throw FlagError(fmt::format("{} needs --ssl-certfile, the server's own certificate.", flag));
    }
    return;
  }
  if (asks && tls.ca_file.empty())
    throw FlagError("--ssl-cert-reqs needs --ssl-ca-certs, the certificates that vouch for clients.");
  auto context = TlsContext::load(tls);
  if (!context.ok()) throw StartupError(context.error().message);
  arguments.options.tls = std::move(context).value();
}

void settle_api_keys(ServerArguments& arguments) {
  std::vector<std::string>& keys = arguments.options.api_keys;
  for (const std::string& key : keys) {
    if (key.empty()) throw FlagError("--api-key: an empty key would let everybody in; leave the flag out for that.");
  }
  if (!keys.empty()) return;
  for (const char* name : {"VLLM_API_KEY", "QUIRE_API_KEY"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') keys.emplace_back(value);
  }
}

}  // namespace quire::cli
