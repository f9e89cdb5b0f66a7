// The only translation unit of the command line that sees Boost.
#include "cli/http_client.h"

#include <fmt/format.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <deque>
#include <exception>
#include <optional>

#include "cli/version.h"

namespace quire::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using Parser = http::response_parser<http::buffer_body>;

struct Connection {
  explicit Connection(asio::io_context& io) : stream(io) {}
  beast::tcp_stream stream;
  beast::flat_buffer buffer;
};

std::string describe(const HttpUrl& url, std::string_view doing, const error_code& error) {
  if (error == beast::error::timeout) return fmt::format("{} took too long while {}", url.authority(), doing);
  if (error == http::error::end_of_stream || error == http::error::partial_message) {
    return fmt::format("{} closed the connection while {}", url.authority(), doing);
  }
  return fmt::format("{}: {} while {}", url.authority(), error.message(), doing);
}

}  // namespace

struct HttpClient::Impl {
  HttpUrl url;
  std::chrono::milliseconds idle;
  size_t max_body_bytes;
  asio::io_context io{1};
  std::optional<asio::ip::tcp::resolver::results_type> addresses;
  std::deque<std::unique_ptr<Connection>> idle_connections;

  asio::awaitable<void> serve(HttpRequest request, HttpHandlers handlers);
  asio::awaitable<std::unique_ptr<Connection>> connect(HttpAnswer& answer);
  asio::awaitable<bool> exchange(Connection& connection, const http::request<http::string_body>& message,
                                 const HttpHandlers& handlers, HttpAnswer& answer, bool& keep);
  asio::awaitable<error_code> read_body(Connection& connection, Parser& parser, const HttpHandlers& handlers,
                                        HttpAnswer& answer);
  http::request<http::string_body> message_of(HttpRequest&& request) const;
};

http::request<http::string_body> HttpClient::Impl::message_of(HttpRequest&& request) const {
  http::request<http::string_body> message{http::string_to_verb(request.method), request.path, 11};
  message.set(http::field::host, url.authority());
  message.set(http::field::user_agent, fmt::format("quire/{}", version()));
  if (!request.body.empty()) message.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : request.headers) message.set(name, value);
  message.body() = std::move(request.body);
  message.prepare_payload();
  return message;
}

asio::awaitable<std::unique_ptr<Connection>> HttpClient::Impl::connect(HttpAnswer& answer) {
  error_code error;
  if (!addresses) {
    asio::ip::tcp::resolver resolver(io);
    auto found = co_await resolver.async_resolve(url.host, url.port, asio::redirect_error(asio::use_awaitable, error));
    if (error) {
      answer.error = describe(url, "looking up its address", error);
      co_return nullptr;
    }
    addresses = std::move(found);
  }
  auto connection = std::make_unique<Connection>(io);
  connection->stream.expires_after(std::chrono::seconds(30));
  co_await connection->stream.async_connect(*addresses, asio::redirect_error(asio::use_awaitable, error));
  if (error) {
    answer.error = describe(url, "connecting", error);
    co_return nullptr;
  }
  connection->stream.socket().set_option(asio::ip::tcp::no_delay(true), error);
  co_return connection;
}

asio::awaitable<error_code> HttpClient::Impl::read_body(Connection& connection, Parser& parser,
                                                        const HttpHandlers& handlers, HttpAnswer& answer) {
  std::vector<char> chunk(size_t{16} << 10);
  const bool stream = handlers.on_data && answer.status == 200;
  error_code error;
  while (!parser.is_done()) {
    auto& body = parser.get().body();
    body.data = chunk.data();
    body.size = chunk.size();
    connection.stream.expires_after(idle);
    co_await http::async_read_some(connection.stream, connection.buffer, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
    if (error && error != http::error::need_buffer) co_return error;
    const std::string_view bytes(chunk.data(), chunk.size() - body.size);
    if (stream) {
      if (!bytes.empty()) handlers.on_data(bytes);
    } else if (answer.body.size() + bytes.size() > max_body_bytes) {
      co_return http::error::body_limit;
    } else {
      answer.body.append(bytes);
    }
  }
  co_return error_code{};
}

/// False when the connection failed before any byte of an answer: it may have been closed while it lay idle.
asio::awaitable<bool> HttpClient::Impl::exchange(Connection& connection,
                                                 const http::request<http::string_body>& message,
                                                 const HttpHandlers& handlers, HttpAnswer& answer, bool& keep) {
  error_code error;
  keep = false;
  connection.stream.expires_after(idle);
  co_await http::async_write(connection.stream, message, asio::redirect_error(asio::use_awaitable, error));
  if (error) {
    answer.error = describe(url, "sending the request", error);
    co_return false;
  }
  Parser parser;
  parser.body_limit(boost::none);
  connection.stream.expires_after(idle);
  co_await http::async_read_header(connection.stream, connection.buffer, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
  if (error) {
    answer.error = describe(url, "waiting for the answer", error);
    co_return parser.got_some() || error == beast::error::timeout;
  }
  answer.status = static_cast<int>(parser.get().result_int());
  const auto type = parser.get()[http::field::content_type];
  answer.content_type.assign(type.data(), type.size());
  keep = parser.keep_alive();
  error = co_await read_body(connection, parser, handlers, answer);
  if (error) {
    keep = false;
    answer.error = describe(url, "sending the answer", error);
  }
  co_return true;
}

asio::awaitable<void> HttpClient::Impl::serve(HttpRequest request, HttpHandlers handlers) {
  HttpAnswer answer;
  const auto message = message_of(std::move(request));
  bool again = false;
  do {
    answer = {};
    std::unique_ptr<Connection> connection;
    const bool reused = !idle_connections.empty();
    if (reused) {
      connection = std::move(idle_connections.back());
      idle_connections.pop_back();
    } else {
      connection = co_await connect(answer);
    }
    if (!connection) break;
    bool keep = false;
    const bool answered = co_await exchange(*connection, message, handlers, answer, keep);
    again = !answered && reused;
    if (keep) {
      connection->stream.expires_never();
      idle_connections.push_back(std::move(connection));
    }
  } while (again);
  if (handlers.on_done) handlers.on_done(std::move(answer));
}

HttpClient::HttpClient(HttpUrl url, double idle_seconds, size_t max_body_bytes) : impl_(std::make_unique<Impl>()) {
  impl_->url = std::move(url);
  impl_->idle = std::chrono::milliseconds(static_cast<int64_t>(idle_seconds * 1000));
  impl_->max_body_bytes = max_body_bytes;
}

HttpClient::~HttpClient() = default;

void HttpClient::start(HttpRequest request, HttpHandlers handlers) {
  asio::co_spawn(impl_->io, impl_->serve(std::move(request), std::move(handlers)),
                 [](const std::exception_ptr& failure) {
                   if (failure) std::rethrow_exception(failure);
                 });
}

void HttpClient::after(double seconds, std::function<void()> action) {
  auto timer = std::make_shared<asio::steady_timer>(impl_->io);
  timer->expires_after(std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
  timer->async_wait([timer, action = std::move(action)](const error_code& error) {
    if (!error) action();
  });
}

void HttpClient::run(const std::function<bool()>& cancelled) {
  impl_->io.restart();
  if (!cancelled) {
    impl_->io.run();
    return;
  }
  while (!impl_->io.stopped() && !cancelled()) impl_->io.run_for(std::chrono::milliseconds(100));
}

HttpAnswer HttpClient::call(HttpRequest request) {
  HttpAnswer result;
  start(std::move(request), {.on_data = {}, .on_done = [&result](HttpAnswer&& answer) { result = std::move(answer); }});
  run();
  return result;
}

}  // namespace quire::cli
