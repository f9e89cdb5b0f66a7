// One request's response on its way out: filled by any thread, drained by the connection's IO thread.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "server/http/http_types.h"

namespace quire {

/// The thread-safe half between a ResponseWriter's users and the connection. Frames the response as HTTP/1.1.
class Exchange final : public ResponseWriter {
 public:
  struct Framing {
    bool keep_alive = true;
    bool head_only = false;  ///< HEAD: everything but the body
    bool chunked = true;     ///< false for HTTP/1.0: a stream then ends with the connection
    size_t max_buffered_bytes = 0;
    HttpHeaders headers = {};  ///< of any answer that has none of the same name
  };
  /// Bytes to put on the wire now.
  struct Output {
    std::string bytes;
    bool finished = false;  ///< the response is complete with these bytes
    bool close = false;     ///< and the connection ends after it
    bool lost = false;      ///< the client took too little for too long: end the connection now
  };

  /// `wake` tells the connection that take() has something; called without locks held, from any thread.
  Exchange(Framing framing, std::function<void()> wake);

  void send(HttpResponse response) override;
  void start_stream(int status, std::string content_type, HttpHeaders headers) override;
  bool write(std::string_view bytes) override;
  void finish() override;
  void on_disconnect(std::function<void()> callback) override;

  /// Called when the last user let go: an unfinished response ends as `fallback` or, once begun, by closing.
  void abandon(const HttpResponse& fallback);

  /// The connection's side.
  Output take();
  /// The client is gone: runs the callback once; later writes are dropped.
  void disconnect();
  /// The response went out completely: the callback is dropped, not run.
  void complete();

 private:
  void append_head(int status, const std::string& content_type, const HttpHeaders& headers,
                   const std::string& length_line);
  void wake_if(bool needed);
  bool begin();

  const Framing framing_;
  const std::function<void()> wake_;
  std::mutex mutex_;
  std::string pending_;
  bool started_ = false, finished_ = false, close_ = false, gone_ = false, wake_sent_ = false, done_ = false;
  std::function<void()> on_disconnect_;
};

}  // namespace quire
