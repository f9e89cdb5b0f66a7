// Each operation asks which kind of stream it is on.
#include "server/http/client_stream.h"

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <vector>

#include "server/http/await.h"

namespace quire {

namespace {

namespace asio = boost::asio;

}  // namespace

ClientStream::ClientStream(Socket socket, TlsContext* tls)
    : stream_(tls == nullptr
                  ? std::variant<Socket, Secure>(std::in_place_index<0>, std::move(socket))
                  : std::variant<Socket, Secure>(std::in_place_index<1>, std::move(socket), tls->context())) {}

ClientStream::Socket& ClientStream::socket() {
  if (auto* plain = std::get_if<Socket>(&stream_)) return *plain;
  return std::get<Secure>(stream_).next_layer();
}

const ClientStream::Socket& ClientStream::socket() const {
  if (const auto* plain = std::get_if<Socket>(&stream_)) return *plain;
  return std::get<Secure>(stream_).next_layer();
}

ClientStream::Awaitable<ClientStream::Error> ClientStream::handshake() {
  if (auto* secure = std::get_if<Secure>(&stream_)) {
    const auto [error] = co_await secure->async_handshake(Secure::server, kAwait);
    co_return error;
  }
  co_return Error();
}

ClientStream::Awaitable<ClientStream::Outcome> ClientStream::read_some(asio::mutable_buffer buffer) {
  if (auto* secure = std::get_if<Secure>(&stream_)) {
    const auto [error, count] = co_await secure->async_read_some(buffer, kAwait);
    co_return Outcome(error, count);
  }
  const auto [error, count] = co_await std::get<Socket>(stream_).async_read_some(buffer, kAwait);
  co_return Outcome(error, count);
}

ClientStream::Awaitable<ClientStream::Outcome> ClientStream::write(asio::const_buffer buffer) {
  if (auto* secure = std::get_if<Secure>(&stream_)) {
    const auto [error, count] = co_await asio::async_write(*secure, buffer, kAwait);
    co_return Outcome(error, count);
  }
  const auto [error, count] = co_await asio::async_write(std::get<Socket>(stream_), buffer, kAwait);
  co_return Outcome(error, count);
}

ClientStream::Awaitable<void> ClientStream::linger(size_t bytes) {
  Error ignored;
  if (auto* plain = std::get_if<Socket>(&stream_)) plain->shutdown(Socket::shutdown_send, ignored);
  std::vector<char> discarded(16 * 1024);
  for (size_t total = 0; total < bytes;) {
    const auto [error, count] = co_await read_some(asio::buffer(discarded));
    if (error) break;
    total += count;
  }
}

ClientStream::Awaitable<void> ClientStream::say_goodbye() {
  auto* secure = std::get_if<Secure>(&stream_);
  if (secure == nullptr) co_return;
  [[maybe_unused]] const auto [error] = co_await secure->async_shutdown(kAwait);
}

void ClientStream::cancel() {
  Error ignored;
  socket().cancel(ignored);
}

void ClientStream::close() {
  Error ignored;
  socket().close(ignored);
}

std::string ClientStream::peer() const {
  Error error;
  const auto endpoint = socket().remote_endpoint(error);
  return error ? std::string() : endpoint.address().to_string();
}

}  // namespace quire
