// What the server's handlers see of HTTP: plain values and a writer, no library types.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// As names of headers compare.
bool equal_without_case(std::string_view a, std::string_view b);

/// The first header of that name (names compare without case), or nothing.
std::optional<std::string_view> find_header(const HttpHeaders& headers, std::string_view name);

/// One request, complete with its body.
struct HttpRequest {
  std::string method;  ///< "GET", "POST", ...
  std::string target;  ///< as the client sent it
  std::string path;    ///< the target before '?', not decoded: routes match it byte for byte
  std::string query;   ///< after '?', not decoded
  HttpHeaders headers;
  std::string body;
  std::string peer;  ///< the client's address, for logs

  /// The first header of that name (names compare without case), or nothing.
  std::optional<std::string_view> header(std::string_view name) const;
};

/// One whole response.
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers;  ///< beside Content-Type, Content-Length, Connection
  bool close = false;   ///< end the connection after it
};

/// Answers one request, either with send() or with start_stream(), write()... and finish(). Any thread may call it, and
/// nothing blocks: bytes queue until the socket takes them. A client that does not read loses the connection once more
/// than HttpLimits::max_buffered_bytes wait for it or nothing moves for HttpLimits::write_timeout. A writer that is
/// dropped before it finished ends the response with 500, or by closing the connection where the head is already out.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  virtual void send(HttpResponse response) = 0;

  virtual void start_stream(int status, std::string content_type, HttpHeaders headers) = 0;
  /// False when the client is gone: the caller may stop producing.
  virtual bool write(std::string_view bytes) = 0;
  virtual void finish() = 0;

  /// `callback` is called once, on an IO thread (or at once, here), if the client goes away before the response is
  /// complete. It must be quick and must not throw.
  virtual void on_disconnect(std::function<void()> callback) = 0;
};

/// Splits a request target at '?' and drops a fragment.
void split_target(HttpRequest& request);

/// "Not Found" for 404; "Unknown" for codes that have no phrase.
std::string_view reason_phrase(int status);

}  // namespace quire
