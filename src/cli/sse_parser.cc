#include "cli/sse_parser.h"

#include <fmt/format.h>

namespace quire::cli {

Status SseParser::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (after_cr_) {
      after_cr_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + data_.size() + part.size() > max_event_bytes_) {
      return invalid_argument(fmt::format("the server sent an event of more than {} bytes", max_event_bytes_));
    }
    if (end == std::string_view::npos) {
      line_.append(part);
      return {};
    }
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {
      take_line(part);
    } else {
      line_.append(part);
      take_line(line_);
      line_.clear();
    }
  }
  return {};
}

void SseParser::take_line(std::string_view line) {
  if (at_start_) {
    at_start_ = false;
    if (line.rfind("\xEF\xBB\xBF", 0) == 0) line.remove_prefix(3);
  }
  if (line.empty()) {
    if (has_data_) on_data_(data_);
    data_.clear();
    has_data_ = false;
    return;
  }
  const size_t colon = line.find(':');
  if (line.substr(0, colon) != "data") return;
  std::string_view value = colon == std::string_view::npos ? std::string_view{} : line.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (has_data_) data_.push_back('\n');
  data_.append(value);
  has_data_ = true;
}

}  // namespace quire::cli
