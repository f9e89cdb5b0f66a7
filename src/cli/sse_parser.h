// Server-sent events from bytes in any split, with limits.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::cli {

/// Parses `text/event-stream` (WHATWG HTML, section 9.2): lines end with LF, CR or CRLF; an empty line ends an event;
/// several "data:" lines of one event are joined by LF; comments and other fields are skipped.
class SseParser {
 public:
  /// An event whose data exceeds `max_event_bytes` is an Error of feed().
  explicit SseParser(std::function<void(std::string_view data)> on_data, size_t max_event_bytes = size_t{16} << 20)
      : on_data_(std::move(on_data)), max_event_bytes_(max_event_bytes) {}

  /// Takes the next bytes of the stream. After an Error the parser must not be used again.
  Status feed(std::string_view bytes);

 private:
  void take_line(std::string_view line);

  std::function<void(std::string_view)> on_data_;
  size_t max_event_bytes_;
  std::string line_;  ///< the beginning of a line whose end has not come
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;
  bool at_start_ = true;
};

}  // namespace quire::cli
