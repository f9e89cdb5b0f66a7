// Ctrl-C while an answer is written ends the answer, not the program.
#pragma once

#include <csignal>

namespace quire::cli {

/// While one lives, SIGINT only sets a flag.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted();

 private:
  struct sigaction previous_ = {};
};

}  // namespace quire::cli
