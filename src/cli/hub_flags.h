// The flags of downloads from a hub.
#pragma once

#include <string>

#include "cli/flag_set.h"
#include "hub/hub_options.h"

namespace quire::cli {

/// --revision, --download-dir and --hf-token.
void add_hub_flags(FlagSet& flags, HubOptions& options);

}  // namespace quire::cli
