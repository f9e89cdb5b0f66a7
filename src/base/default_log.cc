#include "base/default_log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>

namespace quire {

void keep_log_off_stdout() {
  static std::once_flag once;
  std::call_once(once, [] {
    const std::shared_ptr<spdlog::logger> current = spdlog::default_logger();
    if (current == nullptr || !current->name().empty()) return;
    current->sinks() = {std::make_shared<spdlog::sinks::stderr_color_sink_mt>()};
  });
}

}  // namespace quire
