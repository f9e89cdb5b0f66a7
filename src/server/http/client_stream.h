// A client's bytes, through TLS or not: what a connection reads from and writes to.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>

#include "server/http/tls_context.h"

namespace quire {

/// One read and one write may be under way at the same time. For use on the socket's thread only.
class ClientStream {
 public:
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;
  using Error = boost::system::error_code;
  using Outcome = std::pair<Error, size_t>;  ///< bytes that were moved
  using Socket = boost::asio::ip::tcp::socket;

  /// Without `tls` bytes go as they are. It must outlive the stream.
  ClientStream(Socket socket, TlsContext* tls);

  /// Greets the client; nothing to do without TLS.
  Awaitable<Error> handshake();
  Awaitable<Outcome> read_some(boost::asio::mutable_buffer buffer);
  /// Writes all of it, or fails.
  Awaitable<Outcome> write(boost::asio::const_buffer buffer);
  /// After the last write: takes what the client still sends, up to `bytes`, until it has enough or has closed.
  Awaitable<void> linger(size_t bytes);
  /// Tells the client that the stream ends here rather than being cut off, which TLS can.
  Awaitable<void> say_goodbye();

  /// Ends a read that waits; the stream can be read again.
  void cancel();
  void close();
  /// The client's address; empty once it is gone.
  std::string peer() const;
  auto executor() { return socket().get_executor(); }

 private:
  using Secure = boost::asio::ssl::stream<Socket>;
  Socket& socket();
  const Socket& socket() const;

  std::variant<Socket, Secure> stream_;
};

}  // namespace quire
