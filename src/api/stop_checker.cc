#include "api/stop_checker.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

std::vector<size_t> failure_function(const std::string& text) {
  std::vector<size_t> failure(text.size(), 0);
  size_t length = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = failure[length - 1];
    if (text[i] == text[length]) ++length;
    failure[i] = length;
  }
  return failure;
}

}  // namespace

StopChecker::StopChecker(const std::vector<std::string>& stops, bool include_stop) : include_stop_(include_stop) {
  for (const std::string& stop : stops) {
    if (!stop.empty()) patterns_.push_back({stop, failure_function(stop), 0});
  }
}

const StopChecker::Pattern* StopChecker::advance(char byte, bool may_match) {
  const Pattern* complete = nullptr;
  for (Pattern& pattern : patterns_) {
    while (pattern.state > 0 && pattern.text[pattern.state] != byte) pattern.state = pattern.failure[pattern.state - 1];
    if (pattern.text[pattern.state] == byte) ++pattern.state;
    if (pattern.state < pattern.text.size()) continue;
    if (!may_match) {
      pattern.state = pattern.failure.back();
    } else if (complete == nullptr || pattern.state > complete->state) {
      complete = &pattern;
    }
  }
  return complete;
}

std::string StopChecker::release_unheld() {
  size_t keep = 0;
  if (!include_stop_) {
    for (const Pattern& pattern : patterns_) keep = std::max(keep, pattern.state);
  }
  std::string sure = held_.substr(0, held_.size() - keep);
  held_.erase(0, sure.size());
  return sure;
}

std::string StopChecker::push(std::string_view piece, bool may_match) {
  if (matched_) return {};
  if (patterns_.empty()) return std::string(piece);
  for (const char byte : piece) {
    held_.push_back(byte);
    const Pattern* found = advance(byte, may_match);
    if (found == nullptr) continue;
    matched_ = found->text;
    if (!include_stop_) held_.resize(held_.size() - found->text.size());
    return std::exchange(held_, {});
  }
  return release_unheld();
}

std::string StopChecker::finish() { return std::exchange(held_, {}); }

}  // namespace quire
