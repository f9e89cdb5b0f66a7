// The clock of RequestUsage's times.
#pragma once

#include <chrono>

namespace quire {

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace quire
