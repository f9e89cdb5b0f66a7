#include "cli/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace quire::cli {

void add_log_flags(FlagSet& flags, LogArguments& arguments) {
  flags.group("Log").value(
      "--log-level,--uvicorn-log-level", "LEVEL",
      "trace, debug, info, warning, error or off (default: " + arguments.level + ")",
      into_choice(&arguments.level, {"trace", "debug", "info", "warning", "error", "critical", "off"}));
}

LogSetup::LogSetup(const LogArguments& arguments) {
  static const auto logger = spdlog::stderr_color_mt("quire");
  logger->set_level(spdlog::level::from_str(arguments.level));
  logger->set_pattern("%^%L%$ %m-%d %H:%M:%S.%e %v");
  spdlog::set_default_logger(logger);
}

}  // namespace quire::cli
