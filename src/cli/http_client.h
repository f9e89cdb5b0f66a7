// A small HTTP/1.1 client: any number of requests at once on the calling thread, connections kept and used again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/http_url.h"

namespace quire::cli {

struct HttpRequest {
  std::string method = "POST";
  std::string path;  ///< the whole target, "/v1/models"
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

/// What a request ended with: a status and the body of answers that were not streamed, or why there is none.
struct HttpAnswer {
  int status = 0;  ///< 0: no answer came; `error` says why
  std::string content_type;
  std::string body;
  std::string error;

  bool ok() const { return status == 200 && error.empty(); }
};

struct HttpHandlers {
  /// Body bytes of a 200 answer as they come; when absent they are collected in HttpAnswer::body. Other answers are
  /// always collected.
  std::function<void(std::string_view bytes)> on_data;
  /// Called once, last. May start further requests.
  std::function<void(HttpAnswer&& answer)> on_done;
};

class HttpClient {
 public:
  /// A request that receives nothing for `idle_seconds` fails; an answer collected in memory beyond `max_body_bytes`
  /// fails.
  explicit HttpClient(HttpUrl url, double idle_seconds = 600, size_t max_body_bytes = size_t{64} << 20);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Queues a request; it is sent while run() runs. Handlers run on run()'s thread.
  void start(HttpRequest request, HttpHandlers handlers);
  /// Calls `action` in run() after `seconds`.
  void after(double seconds, std::function<void()> action);
  /// Works until no request and no timer is left, or `cancelled` (asked ten times a second) says true: what is open is
  /// then dropped without on_done.
  void run(const std::function<bool()>& cancelled = {});
  /// start() and run() for one request.
  HttpAnswer call(HttpRequest request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::cli
