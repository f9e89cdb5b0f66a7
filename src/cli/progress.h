// A progress bar on the terminal; nothing where standard error is no terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace quire::cli {

class Progress {
 public:
  Progress(std::string label, int64_t total, bool enabled = true);
  ~Progress();  ///< ends the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Draws at most ten times a second, and the last state always. `note` stands behind the bar.
  void update(int64_t done, const std::string& note = {});

 private:
  std::string label_;
  int64_t total_;
  bool enabled_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point begin_, last_;
};

}  // namespace quire::cli
