// Shows how far a load is: one line that is rewritten on a terminal, a few log lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace quire {

class LoadProgress {
 public:
  using Clock = std::chrono::steady_clock;

  /// `label` says what goes on.
  explicit LoadProgress(std::string label = kLoading, bool terminal = stderr_is_terminal())
      : label_(std::move(label)), terminal_(terminal) {}
  ~LoadProgress() { end(); }
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;

  /// Shows the state if it is time to. Called by one thread at a time.
  void update(int64_t done_bytes, int64_t total_bytes);
  /// Ends the terminal's line.
  void end();

  /// "Loading weights: 45% (0.9 of 2.0 GB)".
  static std::string describe(int64_t done_bytes, int64_t total_bytes, const std::string& label = kLoading);

 private:
  static bool stderr_is_terminal();

  static constexpr const char* kLoading = "Loading weights";

  std::string label_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point last_ = Clock::now();  ///< loads that are over at once show nothing
};

}  // namespace quire
