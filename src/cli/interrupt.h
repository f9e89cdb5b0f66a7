// Ctrl-C while an answer is written ends the answer, not the program.
#pragma once

#include <csignal>
#include <initializer_list>
#include <utility>
#include <vector>

namespace quire::cli {

/// While one lives, the signals (SIGINT alone by default) only set a flag.
class InterruptGuard {
 public:
  InterruptGuard(std::initializer_list<int> signals = {SIGINT});
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted() { return signal() != 0; }
  /// The last of the signals that came; 0 for none.
  static int signal();

 private:
  std::vector<std::pair<int, struct sigaction>> previous_;
};

}  // namespace quire::cli
