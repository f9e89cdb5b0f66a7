// A raw HTTP client over loopback for tests: sends bytes as they are, reads what comes.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace quire {

class RawClient {
 public:
  explicit RawClient(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    const timeval limit = {10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~RawClient() { hang_up(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  bool send_bytes(const std::string& bytes) const {
    return send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  void hang_up() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }
  /// Reads until `mark` has come (mark included), or the other side closed, or ten seconds passed.
  std::string read_until(const std::string& mark) {
    while (mark.empty() || seen_.find(mark) == std::string::npos) {
      char buffer[4096];
      const ssize_t count = recv(socket_, buffer, sizeof buffer, 0);
      if (count <= 0) break;
      seen_.append(buffer, static_cast<size_t>(count));
    }
    const size_t found = mark.empty() ? std::string::npos : seen_.find(mark);
    const size_t end = found == std::string::npos ? seen_.size() : found + mark.size();
    std::string result = seen_.substr(0, end);
    seen_.erase(0, end);
    return result;
  }
  std::string read_to_end() { return read_until(""); }

 private:
  int socket_;
  bool connected_ = false;
  std::string seen_;
};

inline std::string http_request(const std::string& method, const std::string& target, const std::string& body = {},
                                const std::string& extra_headers = {}) {
  std::string text = method + " " + target + " HTTP/1.1\r\nHost: test\r\n" + extra_headers;
  if (!body.empty())
    text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + body;
}

/// One request on a connection of its own; the whole response as text.
inline std::string exchange(uint16_t port, const std::string& method, const std::string& target,
                            const std::string& body = {}, const std::string& extra_headers = {}) {
  RawClient client(port);
  client.send_bytes(http_request(method, target, body, extra_headers + "Connection: close\r\n"));
  return client.read_to_end();
}

inline int status_of(const std::string& response) {
  return response.size() < 12 ? 0 : std::stoi(response.substr(9, 3));
}

inline std::string body_of(const std::string& response) {
  const size_t end = response.find("\r\n\r\n");
  return end == std::string::npos ? std::string() : response.substr(end + 4);
}

}  // namespace quire
