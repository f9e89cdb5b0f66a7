// Names out of untrusted files, made fit for a message.
#pragma once

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

}  // namespace quire
