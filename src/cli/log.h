// --log-level, and where the log goes: standard error, so that standard output is the command's own.
#pragma once

#include <string>

#include "cli/flag_set.h"

namespace quire::cli {

struct LogArguments {
  std::string level = "info";
};

void add_log_flags(FlagSet& flags, LogArguments& arguments);

/// Sets the process's log up.
class LogSetup {
 public:
  explicit LogSetup(const LogArguments& arguments);
};

}  // namespace quire::cli
