// One client's connection as C++20 coroutines over Asio and Beast: requests in, responses out, with a deadline on every
// wait. Together with http_server.cc the only code that sees Boost.
//
// Each connection belongs to one IO thread and all its state is touched there only. While a response is under way, a
// second coroutine keeps reading the socket, so that a client that leaves is noticed at once; what a client pipelines
// meanwhile waits in the buffer, up to a limit.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>

#include "server/http/client_stream.h"
#include "server/http/exchange.h"
#include "server/http/http_types.h"
#include "server/http/server_state.h"

namespace quire {

class Connection;

/// One IO thread's context and the connections that live on it.
struct IoLoop {
  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{context.get_executor()};
  std::unordered_set<Connection*> connections;  // touched on the loop's thread only
  std::thread thread;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<IoLoop> loop, std::shared_ptr<ServerState> state);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Serves requests until either side has enough; the connection lives as long as that takes. On its loop's thread.
  void start();
  /// Ends it now, whatever is under way. On its loop's thread.
  void close();

 private:
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;
  using Clock = std::chrono::steady_clock;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  Awaitable<void> serve();
  Awaitable<bool> serve_one();
  Awaitable<boost::system::error_code> read_more();
  Awaitable<boost::system::error_code> parse_some(Parser& parser);
  Awaitable<bool> read_body(Parser& parser, BodyCount& body);
  Awaitable<void> respond(std::shared_ptr<Exchange> exchange);
  Awaitable<bool> write_all(std::string bytes);
  Awaitable<void> refuse(int status, const std::string& message);
  Awaitable<void> send_and_close(HttpResponse response, bool head_only = false);
  Awaitable<void> watch();
  Awaitable<void> watchdog();
  Awaitable<void> wait_wake();

  HttpRequest take_head(const Parser& parser) const;
  std::shared_ptr<Exchange> make_exchange(const HttpRequest& request, bool keep_alive, bool chunked);
  void dispatch(HttpRequest request, const std::shared_ptr<Exchange>& exchange);
  void wake();
  void retire();
  void set_deadline(std::chrono::milliseconds duration) { deadline_ = Clock::now() + duration; }
  void no_deadline() { deadline_ = Clock::time_point::max(); }

  std::shared_ptr<IoLoop> loop_;
  std::shared_ptr<ServerState> state_;
  ClientStream stream_;
  boost::asio::steady_timer wake_timer_, watchdog_timer_;
  boost::beast::flat_buffer buffer_;
  HttpHeaders response_headers_;  ///< for whatever answers the request under way
  Clock::time_point deadline_ = Clock::time_point::max();
  bool closed_ = false, woken_ = false, watching_ = false, keep_alive_ = true;
};

}  // namespace quire
