// An HTTP/1.1 server on a few IO threads: no thread per connection, bounded in every dimension a client controls.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "server/http/bound_address.h"
#include "server/http/http_types.h"
#include "server/http/tls_context.h"

namespace quire {

/// What one client may ask of the server.
struct HttpLimits {
  size_t max_header_bytes = 64 * 1024;              ///< request line and headers together; beyond: 431
  size_t max_headers = 256;                         ///< beyond: 431
  size_t max_target_bytes = 8 * 1024;               ///< beyond: 414
  size_t max_body_bytes = 32 * 1024 * 1024;         ///< beyond: 413
  size_t max_total_body_bytes = 512 * 1024 * 1024;  ///< of all requests under way; beyond: 503
  size_t max_buffered_bytes =
      16 * 1024 * 1024;           ///< of a stream that the client does not read; beyond: the connection is closed
  size_t max_connections = 4096;  ///< beyond: 503 and closed
  std::chrono::milliseconds header_timeout{15'000};  ///< from a request's first byte to the end of its headers
  std::chrono::milliseconds body_timeout{30'000};    ///< without a byte of the body
  std::chrono::milliseconds body_total_timeout{300'000};
  std::chrono::milliseconds idle_timeout{60'000};   ///< of a connection between requests
  std::chrono::milliseconds write_timeout{30'000};  ///< without the client taking a byte
};

struct HttpServerOptions {
  int io_threads = 2;
  HttpLimits limits;
  std::shared_ptr<TlsContext> tls;  ///< nullptr: plain HTTP
};

struct HttpCallbacks {
  /// Judges a request by its headers, before its body is read: a response ends it there. May be empty.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> gate;
  /// What any answer to this request carries, unless it has a header of that name: called once its headers are read.
  /// May be empty.
  std::function<HttpHeaders(const HttpRequest&)> response_headers;
  /// Answers a request. Called on an IO thread: anything that takes more than microseconds belongs elsewhere.
  std::function<void(HttpRequest, std::shared_ptr<ResponseWriter>)> handler;
  /// The response to what is no valid request (400, 408, 413, 414, 431) or got no answer (500).
  std::function<HttpResponse(int status, const std::string& message)> failure;
};

class HttpServer {
 public:
  /// Listens on `address` and starts the IO threads. Errors name the address.
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options, HttpCallbacks callbacks,
                                                   BoundAddress address);
  ~HttpServer();  ///< stop()
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  /// Requests whose response is not yet fully sent.
  size_t active_requests() const;
  /// Open connections.
  size_t connections() const;
  /// Closes the listener and every connection (their on_disconnect callbacks run), and ends the threads.
  void stop();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
