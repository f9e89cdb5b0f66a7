// The one translation unit that includes Boost: listener, IO threads and connections as C++20 coroutines over Asio and
// Beast.
//
// Each connection belongs to one IO thread and all its state is touched there only. While a response is under way, a
// second coroutine keeps reading the socket, so that a client that leaves is noticed at once; what a client pipelines
// meanwhile waits in the buffer, up to a limit.
#include "server/http/http_server.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <boost/asio.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "server/http/exchange.h"

namespace quire {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr size_t kWriteSlice =
    64 * 1024;  // one deadline per slice: a slow client is one that takes less than this per write_timeout
constexpr size_t kPipelineBytes = 64 * 1024;  // read ahead while a response is under way
constexpr size_t kLingerBytes = 1024 * 1024;  // of a refused body that are read, so that the refusal arrives

/// What all connections share.
struct Shared {
  HttpLimits limits;
  HttpCallbacks callbacks;
  std::chrono::milliseconds tick{1000};
  std::atomic<size_t> active{0};
  std::atomic<size_t> connections{0};
  std::atomic<size_t> body_bytes{0};
  std::atomic<bool> stopping{false};
};

/// Counts a request as active while it lives.
class ActiveCount {
 public:
  explicit ActiveCount(Shared& shared) : shared_(shared) { shared_.active.fetch_add(1); }
  ~ActiveCount() { shared_.active.fetch_sub(1); }
  ActiveCount(const ActiveCount&) = delete;
  ActiveCount& operator=(const ActiveCount&) = delete;

 private:
  Shared& shared_;
};

/// The bytes of one request's body among those of all, while it lives.
class BodyCount {
 public:
  explicit BodyCount(Shared& shared) : shared_(shared) {}
  ~BodyCount() { shared_.body_bytes.fetch_sub(counted_); }
  BodyCount(const BodyCount&) = delete;
  BodyCount& operator=(const BodyCount&) = delete;

  /// False when all bodies together are too many.
  bool grow_to(size_t bytes) {
    const size_t more = bytes - counted_;
    counted_ = bytes;
    return shared_.body_bytes.fetch_add(more) + more <= shared_.limits.max_total_body_bytes;
  }

 private:
  Shared& shared_;
  size_t counted_ = 0;
};

class Connection;

/// One IO thread's context and the connections that live on it.
struct IoLoop {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::unordered_set<Connection*> connections;  // touched on the loop's thread only
  std::thread thread;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::shared_ptr<IoLoop> loop, std::shared_ptr<Shared> shared)
      : loop_(std::move(loop)),
        shared_(std::move(shared)),
        socket_(std::move(socket)),
        wake_timer_(socket_.get_executor()),
        watchdog_timer_(socket_.get_executor()) {
    shared_->connections.fetch_add(1, std::memory_order_relaxed);
  }
  ~Connection() { shared_->connections.fetch_sub(1, std::memory_order_relaxed); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start() {
    if (shared_->stopping.load()) return;  // accepted just before the listener closed
    loop_->connections.insert(this);
    set_deadline(shared_->limits.header_timeout);
    auto self = shared_from_this();
    asio::co_spawn(
        socket_.get_executor(), [self] { return self->watchdog(); }, asio::detached);
    asio::co_spawn(
        socket_.get_executor(), [self] { return self->serve(); },
        [self](const std::exception_ptr& fault) {
          if (fault) self->log_fault(fault);
          self->retire();
        });
  }

  void close() {
    closed_ = true;
    error_code ignored;
    socket_.close(ignored);
    wake();
  }

 private:
  asio::awaitable<void> serve();
  asio::awaitable<bool> serve_one();
  asio::awaitable<bool> read_body(http::request_parser<http::string_body>& parser, BodyCount& body);
  asio::awaitable<void> respond(std::shared_ptr<Exchange> exchange);
  asio::awaitable<bool> write_all(std::string bytes);
  asio::awaitable<void> refuse(int status, std::string message);
  asio::awaitable<void> send_and_close(HttpResponse response, bool head_only = false);
  asio::awaitable<void> watch();
  asio::awaitable<void> watchdog();
  asio::awaitable<void> wait_wake();

  HttpRequest take_head(const http::request_parser<http::string_body>& parser) const;
  std::shared_ptr<Exchange> make_exchange(const HttpRequest& request, bool keep_alive, bool chunked);
  void dispatch(HttpRequest request, const std::shared_ptr<Exchange>& exchange);
  void log_fault(const std::exception_ptr& fault) const;
  void set_deadline(std::chrono::milliseconds duration) { deadline_ = Clock::now() + duration; }
  void no_deadline() { deadline_ = Clock::time_point::max(); }

  void wake() {
    woken_ = true;
    wake_timer_.cancel();
  }
  void retire() {
    close();
    watchdog_timer_.cancel();
    loop_->connections.erase(this);
  }

  std::shared_ptr<IoLoop> loop_;
  std::shared_ptr<Shared> shared_;
  tcp::socket socket_;
  asio::steady_timer wake_timer_, watchdog_timer_;
  beast::flat_buffer buffer_;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool closed_ = false, woken_ = false, watching_ = false, keep_alive_ = true;
};

/// Closes the socket once the deadline of whatever is being waited for has passed.
asio::awaitable<void> Connection::watchdog() {
  while (!closed_) {
    watchdog_timer_.expires_after(shared_->tick);
    co_await watchdog_timer_.async_wait(kAwait);
    if (!closed_ && Clock::now() > deadline_) close();
  }
}

asio::awaitable<void> Connection::wait_wake() {
  if (!woken_) {
    wake_timer_.expires_at(asio::steady_timer::time_point::max());
    co_await wake_timer_.async_wait(kAwait);
  }
  woken_ = false;
}

asio::awaitable<void> Connection::serve() {
  while (!closed_) {
    if (buffer_.size() == 0) {
      const auto [error] = co_await socket_.async_wait(tcp::socket::wait_read, kAwait);
      if (error) break;
    }
    set_deadline(shared_->limits.header_timeout);
    const bool more = co_await serve_one();
    if (!more) break;
    set_deadline(shared_->limits.idle_timeout);
  }
}

/// Status and sentence for a request that Beast refuses; 0 where there is nobody to tell.
std::pair<int, std::string> describe(const error_code& error, const HttpLimits& limits) {
  if (error == http::error::header_limit) {
    return {431, fmt::format("The request's headers are larger than {} bytes.", limits.max_header_bytes)};
  }
  if (error == http::error::body_limit) {
    return {413, fmt::format("The request's body is larger than {} bytes.", limits.max_body_bytes)};
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message) return {0, {}};
  if (error.category() == make_error_code(http::error::bad_method).category()) {
    return {400, fmt::format("This is no valid HTTP/1.1 request: {}.", error.message())};
  }
  return {0, {}};
}

HttpRequest Connection::take_head(const http::request_parser<http::string_body>& parser) const {
  const auto& message = parser.get();
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  split_target(request);
  for (const auto& field : message)
    request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  error_code ignored;
  const auto peer = socket_.remote_endpoint(ignored);
  request.peer = ignored ? std::string() : peer.address().to_string();
  return request;
}

std::shared_ptr<Exchange> Connection::make_exchange(const HttpRequest& request, bool keep_alive, bool chunked) {
  const Exchange::Framing framing{keep_alive, request.method == "HEAD", chunked, shared_->limits.max_buffered_bytes};
  return std::make_shared<Exchange>(framing, [weak = weak_from_this(), loop = loop_] {
    asio::post(loop->context, [weak] {
      if (const auto self = weak.lock()) self->wake();
    });
  });
}

asio::awaitable<bool> Connection::serve_one() {
  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<uint32_t>(shared_->limits.max_header_bytes));
  parser.body_limit(shared_->limits.max_body_bytes);
  const auto [error, count] = co_await http::async_read_header(socket_, buffer_, parser, kAwait);
  if (error) {
    const auto [status, message] = describe(error, shared_->limits);
    if (status != 0) co_await refuse(status, message);
    co_return false;
  }
  HttpRequest request = take_head(parser);
  if (request.headers.size() > shared_->limits.max_headers) {
    co_await refuse(431, fmt::format("The request has more than {} headers.", shared_->limits.max_headers));
    co_return false;
  }
  if (request.target.size() > shared_->limits.max_target_bytes) {
    co_await refuse(414, fmt::format("The request's URL is longer than {} bytes.", shared_->limits.max_target_bytes));
    co_return false;
  }
  if (request.header("Transfer-Encoding") && !parser.chunked()) {  // where the body ends cannot be known
    co_await refuse(501, "Only chunked is supported as a Transfer-Encoding.");
    co_return false;
  }
  keep_alive_ = parser.get().keep_alive();
  if (shared_->callbacks.gate) {
    if (auto refusal = shared_->callbacks.gate(request)) {
      const bool reusable = parser.is_done() && keep_alive_ && !refusal->close;
      if (!reusable) {
        co_await send_and_close(std::move(*refusal), request.method == "HEAD");
        co_return false;
      }
      auto refused = make_exchange(request, true, true);
      refused->send(std::move(*refusal));
      co_await respond(refused);
      co_return keep_alive_ && !closed_;
    }
  }
  BodyCount body(*shared_);
  const bool complete = co_await read_body(parser, body);
  if (!complete) co_return false;
  const ActiveCount active(*shared_);
  const auto exchange = make_exchange(request, keep_alive_, parser.get().version() >= 11);
  request.body = std::move(parser.get().body());
  dispatch(std::move(request), exchange);
  co_await respond(exchange);
  co_return keep_alive_ && !closed_;
}

asio::awaitable<bool> Connection::read_body(http::request_parser<http::string_body>& parser, BodyCount& body) {
  if (parser.is_done()) co_return true;
  if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    const bool sent = co_await write_all("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return false;
  }
  const auto end = Clock::now() + shared_->limits.body_total_timeout;
  while (!parser.is_done()) {
    deadline_ = std::min(Clock::now() + shared_->limits.body_timeout, end);
    const auto [error, count] = co_await http::async_read_some(socket_, buffer_, parser, kAwait);
    if (error) {
      const auto [status, message] = describe(error, shared_->limits);
      if (status != 0) co_await refuse(status, message);
      co_return false;
    }
    if (!body.grow_to(parser.get().body().size())) {
      co_await refuse(503, "The server holds too many large requests; try again later.");
      co_return false;
    }
  }
  co_return true;
}

/// Gives the request to the handler. The writer that it gets ends the response when its last copy goes.
void Connection::dispatch(HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
  no_deadline();
  const std::shared_ptr<Shared> shared = shared_;
  const std::shared_ptr<ResponseWriter> writer(exchange.get(), [exchange, shared](ResponseWriter*) {
    exchange->abandon(shared->callbacks.failure(500, "The request was dropped without an answer."));
  });
  try {
    shared_->callbacks.handler(std::move(request), writer);
  } catch (const std::exception& fault) {
    spdlog::error("A request handler failed: {}", fault.what());
    writer->send(shared_->callbacks.failure(500, "Internal server error."));
  }
}

asio::awaitable<void> Connection::respond(std::shared_ptr<Exchange> exchange) {
  watching_ = true;
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->watch(); }, asio::detached);
  bool sent = false;
  while (!closed_ && !sent) {
    no_deadline();
    Exchange::Output output = exchange->take();
    if (output.lost) break;
    if (output.bytes.empty() && !output.finished) {
      co_await wait_wake();
      continue;
    }
    const bool written = co_await write_all(std::move(output.bytes));
    if (!written) break;
    sent = output.finished;
    if (sent && output.close) keep_alive_ = false;
  }
  if (sent) {
    exchange->complete();
  } else {
    close();
    exchange->disconnect();
  }
  error_code ignored;
  if (watching_) socket_.cancel(ignored);
  while (watching_) co_await wait_wake();
}

/// Reads ahead while a response is under way: the end of the stream means that the client is gone.
asio::awaitable<void> Connection::watch() {
  while (buffer_.size() < kPipelineBytes) {
    const auto [error, count] = co_await socket_.async_read_some(buffer_.prepare(4096), kAwait);
    if (error == asio::error::operation_aborted) break;
    if (error) {
      close();
      break;
    }
    buffer_.commit(count);
  }
  watching_ = false;
  wake();
}

asio::awaitable<bool> Connection::write_all(std::string bytes) {
  size_t done = 0;
  while (done < bytes.size() && !closed_) {
    set_deadline(shared_->limits.write_timeout);
    const size_t slice = std::min(kWriteSlice, bytes.size() - done);
    const auto [error, count] = co_await asio::async_write(socket_, asio::buffer(bytes.data() + done, slice), kAwait);
    if (error) co_return false;
    done += count;
  }
  co_return done == bytes.size();
}

asio::awaitable<void> Connection::refuse(int status, std::string message) {
  return send_and_close(shared_->callbacks.failure(status, message));
}

/// Answers a request whose body was not read. What the client still sends is read for a while, since closing on unread
/// bytes would reset the connection and could take the answer with it.
asio::awaitable<void> Connection::send_and_close(HttpResponse response, bool head_only) {
  response.close = true;
  Exchange exchange({false, head_only, true, 0}, [] {});
  exchange.send(std::move(response));
  const bool sent = co_await write_all(exchange.take().bytes);
  keep_alive_ = false;
  if (!sent) co_return;
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  set_deadline(std::chrono::seconds(2));
  std::vector<char> discarded(16 * 1024);
  for (size_t total = 0; total < kLingerBytes && !closed_;) {
    const auto [error, count] = co_await socket_.async_read_some(asio::buffer(discarded), kAwait);
    if (error) break;
    total += count;
  }
}

void Connection::log_fault(const std::exception_ptr& fault) const {
  try {
    std::rethrow_exception(fault);
  } catch (const std::exception& error) {
    spdlog::error("A connection ended by a fault: {}", error.what());
  } catch (...) {
    spdlog::error("A connection ended by an unknown fault");
  }
}

Result<tcp::endpoint> resolve(const std::string& host, uint16_t port) {
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (!error) return tcp::endpoint(address, port);
  asio::io_context context;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    return invalid_argument(fmt::format("--host '{}' is no address or known name: {}.", host, error.message()), "host");
  }
  return found.begin()->endpoint();
}

}  // namespace

struct HttpServer::Impl {
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  std::vector<std::shared_ptr<IoLoop>> loops;
  std::unique_ptr<tcp::acceptor> acceptor;
  uint16_t port = 0;
  size_t next_loop = 0;
  bool stopped = false;

  Status bind(const HttpServerOptions& options) {
    QUIRE_ASSIGN_OR_RETURN(const tcp::endpoint endpoint, resolve(options.host, options.port));
    acceptor = std::make_unique<tcp::acceptor>(loops[0]->context);
    error_code error;
    acceptor->open(endpoint.protocol(), error);
    if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor->bind(endpoint, error);
    if (!error) acceptor->listen(4096, error);
    if (error) {
      return invalid_argument(fmt::format("Cannot listen on {} port {}: {}. Choose another with --host and --port.",
                                          options.host, options.port, error.message()),
                              "port");
    }
    port = acceptor->local_endpoint().port();
    return {};
  }

  asio::awaitable<void> accept_loop() {
    asio::steady_timer pause(acceptor->get_executor());
    while (acceptor->is_open()) {
      const std::shared_ptr<IoLoop> loop = loops[next_loop++ % loops.size()];
      auto [error, socket] = co_await acceptor->async_accept(loop->context, kAwait);
      if (error == asio::error::operation_aborted || !acceptor->is_open()) break;
      if (error) {  // out of descriptors, or the client left already: the listener lives on
        pause.expires_after(std::chrono::milliseconds(50));
        co_await pause.async_wait(kAwait);
        continue;
      }
      admit(std::move(socket), loop);
    }
  }

  void admit(tcp::socket socket, const std::shared_ptr<IoLoop>& loop) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    if (shared->connections.load(std::memory_order_relaxed) >= shared->limits.max_connections) {
      Exchange refusal({false, false, true, 0}, [] {});
      refusal.send(shared->callbacks.failure(503, "The server has too many open connections."));
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(refusal.take().bytes), ignored);
      return;
    }
    auto connection = std::make_shared<Connection>(std::move(socket), loop, shared);
    asio::post(loop->context, [connection] { connection->start(); });
  }

  void stop() {
    if (std::exchange(stopped, true)) return;
    shared->stopping.store(true);
    asio::post(loops[0]->context, [this] {
      error_code ignored;
      if (acceptor) acceptor->close(ignored);
    });
    for (const auto& loop : loops) {
      asio::post(loop->context, [loop] {
        for (Connection* connection : loop->connections) connection->close();
      });
      loop->work.reset();
    }
    for (const auto& loop : loops) {
      if (loop->thread.joinable()) loop->thread.join();
    }
  }
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() { stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options, HttpCallbacks callbacks) {
  auto impl = std::make_unique<Impl>();
  impl->shared->limits = options.limits;
  impl->shared->callbacks = std::move(callbacks);
  const HttpLimits& limits = options.limits;
  const auto shortest =
      std::min({limits.header_timeout, limits.body_timeout, limits.idle_timeout, limits.write_timeout});
  impl->shared->tick = std::clamp(shortest / 4, std::chrono::milliseconds(10), std::chrono::milliseconds(1000));
  for (int i = 0; i < std::max(1, options.io_threads); ++i) impl->loops.push_back(std::make_shared<IoLoop>());
  QUIRE_RETURN_IF_ERROR(impl->bind(options));
  Impl* raw = impl.get();
  asio::co_spawn(
      impl->loops[0]->context, [raw] { return raw->accept_loop(); }, asio::detached);
  for (const auto& loop : impl->loops) loop->thread = std::thread([loop] { loop->context.run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

uint16_t HttpServer::port() const { return impl_->port; }
size_t HttpServer::active_requests() const { return impl_->shared->active.load(std::memory_order_relaxed); }
size_t HttpServer::connections() const { return impl_->shared->connections.load(std::memory_order_relaxed); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace quire
