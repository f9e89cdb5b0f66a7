// vLLM's flags that quire knows but has not built: each is answered with a sentence that names it, never ignored in
// silence.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cli/flag_set.h"

namespace quire::cli {

struct UnbuiltFlag {
  std::string_view name;  ///< "--tensor-parallel-size"
  bool takes_value = true;
  std::vector<std::string_view> neutral;  ///< values that ask for nothing beyond what quire does
  std::string_view reason;                ///< what is the case, as the rest of "--name ..."
};

/// Engine flags, and the server's.
std::span<const UnbuiltFlag> unbuilt_engine_flags();
std::span<const UnbuiltFlag> unbuilt_server_flags();

/// Adds them hidden from --help; giving one with a value that is not neutral throws FlagError.
void add_unbuilt_engine_flags(FlagSet& flags);
void add_unbuilt_server_flags(FlagSet& flags);

}  // namespace quire::cli
