#include "cli/server_flags.h"

#include <fmt/format.h>

#include <cstdlib>

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
             into_seconds(&options.shutdown_timeout));
  flags.group("Log").flag("--disable-log-stats", "No line about throughput every ten seconds",
                          &arguments.disable_log_stats);
  add_unbuilt_server_flags(flags);
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
