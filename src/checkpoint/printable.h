// Names out of untrusted files, made fit for a message.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace quire {

/// `text` in single quotes, cut after `limit` bytes, control characters and bytes outside ASCII replaced by '?'.
inline std::string quote_name(std::string_view text, size_t limit = 120) {
  std::string result = "'";
  for (const char c : text.substr(0, limit)) result += c >= 0x20 && c < 0x7f ? c : '?';
  if (text.size() > limit) result += "...";
  return result + "'";
}

/// Whether it holds line breaks or the like, with which a name could forge lines of a log.
inline bool has_control_characters(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace quire
