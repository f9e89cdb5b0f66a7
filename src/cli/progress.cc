#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace quire::cli {

using std::chrono::steady_clock;

Progress::Progress(std::string label, int64_t total, bool enabled)
    : label_(std::move(label)),
      total_(std::max<int64_t>(total, 1)),
      enabled_(enabled && isatty(STDERR_FILENO) == 1),
      begin_(steady_clock::now()),
      last_(begin_ - std::chrono::seconds(1)) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\n");
}

void Progress::update(int64_t done, const std::string& note) {
  const auto now = steady_clock::now();
  if (!enabled_ || (done < total_ && now - last_ < std::chrono::milliseconds(100))) return;
  last_ = now;
  drawn_ = true;
  constexpr int64_t kWidth = 30;
  const int64_t filled = std::min(kWidth, kWidth * done / total_);
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  fmt::print(stderr, "\r{} [{}{}] {}/{} {:.1f} s {}\x1b[K", label_, std::string(static_cast<size_t>(filled), '#'),
             std::string(static_cast<size_t>(kWidth - filled), '.'), done, total_, seconds, note);
  std::fflush(stderr);
}

}  // namespace quire::cli
