// Framing and queueing of one response.
#include "server/http/exchange.h"

#include <fmt/format.h>

#include <utility>

namespace quire {

Exchange::Exchange(Framing framing, std::function<void()> wake) : framing_(std::move(framing)), wake_(std::move(wake)) {
  close_ = !framing_.keep_alive;
}

void Exchange::append_head(int status, const std::string& content_type, const HttpHeaders& headers,
                           const std::string& length_line) {
  pending_ += fmt::format("HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  if (!content_type.empty()) pending_ += fmt::format("Content-Type: {}\r\n", content_type);
  for (const auto& [name, value] : headers) pending_ += fmt::format("{}: {}\r\n", name, value);
  for (const auto& [name, value] : framing_.headers) {
    if (!find_header(headers, name)) pending_ += fmt::format("{}: {}\r\n", name, value);
  }
  pending_ += length_line;
  pending_ += close_ ? "Connection: close\r\n\r\n" : "Connection: keep-alive\r\n\r\n";
}

bool Exchange::begin() {
  if (started_ || gone_) return false;
  return started_ = true;
}

void Exchange::wake_if(bool needed) {
  if (needed) wake_();
}

void Exchange::send(HttpResponse response) {
  bool needed = false;
  {
    const std::lock_guard lock(mutex_);
    if (!begin()) return;
    close_ = close_ || response.close;
    const bool bodiless = response.status == 204;
    const std::string length_line =
        bodiless ? std::string() : fmt::format("Content-Length: {}\r\n", response.body.size());
    append_head(response.status, response.body.empty() ? std::string() : response.content_type, response.headers,
                length_line);
    if (!framing_.head_only && !bodiless) pending_ += response.body;
    finished_ = true;
    needed = !std::exchange(wake_sent_, true);
  }
  wake_if(needed);
}

void Exchange::start_stream(int status, std::string content_type, HttpHeaders headers) {
  bool needed = false;
  {
    const std::lock_guard lock(mutex_);
    if (!begin()) return;
    if (!framing_.chunked) close_ = true;
    append_head(status, content_type, headers, framing_.chunked ? "Transfer-Encoding: chunked\r\n" : "");
    needed = !std::exchange(wake_sent_, true);
  }
  wake_if(needed);
}

bool Exchange::write(std::string_view bytes) {
  bool needed = false;
  {
    const std::lock_guard lock(mutex_);
    if (gone_ || !started_ || finished_) return false;
    if (bytes.empty() || framing_.head_only) return true;
    if (pending_.size() + bytes.size() > framing_.max_buffered_bytes) {
      // The client does not read: the connection ends here, which also cancels the work behind it.
      finished_ = close_ = gone_ = true;
      pending_.clear();
    } else if (framing_.chunked) {
      fmt::format_to(std::back_inserter(pending_), "{:x}\r\n", bytes.size());
      pending_.append(bytes).append("\r\n");
    } else {
      pending_.append(bytes);
    }
    needed = !std::exchange(wake_sent_, true);
  }
  wake_if(needed);
  return true;
}

void Exchange::finish() {
  bool needed = false;
  {
    const std::lock_guard lock(mutex_);
    if (gone_ || !started_ || finished_) return;
    if (framing_.chunked && !framing_.head_only) pending_ += "0\r\n\r\n";
    finished_ = true;
    needed = !std::exchange(wake_sent_, true);
  }
  wake_if(needed);
}

void Exchange::on_disconnect(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (done_) return;
    if (!gone_) {
      on_disconnect_ = std::move(callback);
      return;
    }
  }
  callback();
}

void Exchange::abandon(const HttpResponse& fallback) {
  bool begun = false;
  {
    const std::lock_guard lock(mutex_);
    if (finished_ || gone_) return;
    begun = started_;
  }
  if (!begun) return send(fallback);
  bool needed = false;
  {
    const std::lock_guard lock(mutex_);
    finished_ = close_ = true;  // without the last chunk, so that the client sees a cut stream
    needed = !std::exchange(wake_sent_, true);
  }
  wake_if(needed);
}

Exchange::Output Exchange::take() {
  const std::lock_guard lock(mutex_);
  wake_sent_ = false;
  return {std::exchange(pending_, {}), finished_, close_, gone_};
}

void Exchange::disconnect() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    if (!std::exchange(done_, true)) callback = std::move(on_disconnect_);
    on_disconnect_ = nullptr;
    pending_.clear();
  }
  if (callback) callback();
}

void Exchange::complete() {
  std::function<void()> dropped;  // destroyed outside the lock: it may own what owns this
  const std::lock_guard lock(mutex_);
  done_ = true;
  dropped = std::move(on_disconnect_);
  on_disconnect_ = nullptr;
}

}  // namespace quire
