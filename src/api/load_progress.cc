#include "api/load_progress.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>

namespace quire {
namespace {

constexpr std::chrono::milliseconds kTerminalInterval{100};
constexpr std::chrono::seconds kLogInterval{3};

}  // namespace

bool LoadProgress::stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

std::string LoadProgress::describe(int64_t done_bytes, int64_t total_bytes, const std::string& label) {
  const double total = static_cast<double>(total_bytes), done = static_cast<double>(done_bytes);
  const bool large = total >= 1e9;
  const double unit = large ? 1e9 : 1e6;
  return fmt::format("{}: {:.0f}% ({:.1f} of {:.1f} {})", label, total > 0 ? 100.0 * done / total : 100.0, done / unit,
                     total / unit, large ? "GB" : "MB");
}

void LoadProgress::update(int64_t done_bytes, int64_t total_bytes) {
  const Clock::time_point now = Clock::now();
  const bool complete = shown_ && done_bytes >= total_bytes;
  if (!complete && now - last_ < (terminal_ ? Clock::duration(kTerminalInterval) : Clock::duration(kLogInterval)))
    return;
  last_ = now;
  shown_ = true;
  if (terminal_) {
    fmt::print(stderr, "\r{}\x1b[K", describe(done_bytes, total_bytes, label_));
    std::fflush(stderr);
  } else {
    spdlog::info("{}", describe(done_bytes, total_bytes, label_));
  }
}

void LoadProgress::end() {
  if (terminal_ && shown_) {
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
  }
  shown_ = false;
}

}  // namespace quire
