// The flags of ServerOptions.
#pragma once

#include "cli/flag_set.h"
#include "server/server.h"

namespace quire::cli {

/// What serve's flags say beside the engine's.
struct ServerArguments {
  ServerOptions options;
  TlsOptions tls;
  bool disable_log_stats = false;
};

void add_server_flags(FlagSet& flags, ServerArguments& arguments);

/// Reads the files of the --ssl flags into the options. A flag that makes no sense without another throws FlagError, a
/// file that cannot be used StartupError.
void settle_tls(ServerArguments& arguments);

/// Keys of --api-key, or where none is given of VLLM_API_KEY and QUIRE_API_KEY. An empty --api-key throws FlagError.
void settle_api_keys(ServerArguments& arguments);

}  // namespace quire::cli
