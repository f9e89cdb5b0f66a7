#include "server/http/await.h"
#include "server/http/connection.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <utility>

namespace quire {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kWriteSlice =
    64 * 1024;  // one deadline per slice: a slow client is one that takes less than this per write_timeout
constexpr size_t kPipelineBytes = 64 * 1024;  // read ahead while a response is under way
constexpr size_t kReadBytes = 16 * 1024;
constexpr std::chrono::seconds kGoodbye{2};   // for a client to take note that the connection ends
constexpr size_t kLingerBytes = 1024 * 1024;  // of a refused body that are read, so that the refusal arrives

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

void log_fault(const std::exception_ptr& fault) {
  try {
    std::rethrow_exception(fault);
  } catch (const std::exception& error) {
    spdlog::error("A connection ended by a fault: {}", error.what());
  } catch (...) {
    spdlog::error("A connection ended by an unknown fault");
  }
}

}  // namespace

Connection::Connection(tcp::socket socket, std::shared_ptr<IoLoop> loop, std::shared_ptr<ServerState> state)
    : loop_(std::move(loop)),
      state_(std::move(state)),
      stream_(std::move(socket), state_->tls.get()),
      wake_timer_(stream_.executor()),
      watchdog_timer_(stream_.executor()) {
  state_->connections.fetch_add(1, std::memory_order_relaxed);
}

Connection::~Connection() { state_->connections.fetch_sub(1, std::memory_order_relaxed); }

void Connection::start() {
  if (state_->stopping.load()) return;  // accepted just before the listener closed
  loop_->connections.insert(this);
  set_deadline(state_->limits.header_timeout);
  auto self = shared_from_this();
  asio::co_spawn(
      stream_.executor(), [self] { return self->watchdog(); }, asio::detached);
  asio::co_spawn(
      stream_.executor(), [self] { return self->serve(); },
      [self](const std::exception_ptr& fault) {
        if (fault) log_fault(fault);
        self->retire();
      });
}

void Connection::close() {
  closed_ = true;
  stream_.close();
  wake();
}

void Connection::retire() {
  close();
  watchdog_timer_.cancel();
  loop_->connections.erase(this);
}

void Connection::wake() {
  woken_ = true;
  wake_timer_.cancel();
}

/// Closes the socket once the deadline of whatever is being waited for has passed.
asio::awaitable<void> Connection::watchdog() {
  while (!closed_) {
    watchdog_timer_.expires_after(state_->tick);
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
  if (const auto error = co_await stream_.handshake()) co_return;
  while (!closed_) {
    if (buffer_.size() == 0) {
      const auto error = co_await read_more();
      if (error) co_return;
    }
    set_deadline(state_->limits.header_timeout);
    const bool more = co_await serve_one();
    if (!more) break;
    set_deadline(state_->limits.idle_timeout);
  }
  if (closed_) co_return;
  set_deadline(kGoodbye);
  co_await stream_.say_goodbye();
}

asio::awaitable<error_code> Connection::read_more() {
  const auto [error, count] = co_await stream_.read_some(buffer_.prepare(kReadBytes));
  buffer_.commit(count);
  co_return error;
}

/// Feeds the parser what has come, else what comes next.
asio::awaitable<error_code> Connection::parse_some(Parser& parser) {
  error_code error;
  if (buffer_.size() > 0) {
    buffer_.consume(parser.put(buffer_.data(), error));
    if (error != http::error::need_more) co_return error;
  }
  error = co_await read_more();
  if (error != asio::error::eof && error != asio::ssl::error::stream_truncated) co_return error;
  error = {};
  if (!parser.got_some()) co_return http::error::end_of_stream;
  parser.put_eof(error);
  co_return error;
}

HttpRequest Connection::take_head(const Parser& parser) const {
  const auto& message = parser.get();
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  split_target(request);
  for (const auto& field : message)
    request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  request.peer = stream_.peer();
  return request;
}

std::shared_ptr<Exchange> Connection::make_exchange(const HttpRequest& request, bool keep_alive, bool chunked) {
  const Exchange::Framing framing{keep_alive, request.method == "HEAD", chunked, state_->limits.max_buffered_bytes,
                                  response_headers_};
  return std::make_shared<Exchange>(framing, [weak = weak_from_this(), loop = loop_] {
    asio::post(loop->context, [weak] {
      if (const auto self = weak.lock()) self->wake();
    });
  });
}

asio::awaitable<bool> Connection::serve_one() {
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(state_->limits.max_header_bytes));
  parser.body_limit(state_->limits.max_body_bytes);
  response_headers_.clear();
  while (!parser.is_header_done()) {
    const auto error = co_await parse_some(parser);
    if (!error) continue;
    const auto [status, message] = describe(error, state_->limits);
    if (status != 0) co_await refuse(status, message);
    co_return false;
  }
  HttpRequest request = take_head(parser);
  if (state_->callbacks.response_headers) response_headers_ = state_->callbacks.response_headers(request);
  if (request.headers.size() > state_->limits.max_headers) {
    co_await refuse(431, fmt::format("The request has more than {} headers.", state_->limits.max_headers));
    co_return false;
  }
  if (request.target.size() > state_->limits.max_target_bytes) {
    co_await refuse(414, fmt::format("The request's URL is longer than {} bytes.", state_->limits.max_target_bytes));
    co_return false;
  }
  if (request.header("Transfer-Encoding") && !parser.chunked()) {  // where the body ends cannot be known
    co_await refuse(501, "Only chunked is supported as a Transfer-Encoding.");
    co_return false;
  }
  keep_alive_ = parser.get().keep_alive();
  if (state_->callbacks.gate) {
    if (auto refusal = state_->callbacks.gate(request)) {
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
  BodyCount body(*state_);
  const bool complete = co_await read_body(parser, body);
  if (!complete) co_return false;
  const ActiveCount active(*state_);
  const auto exchange = make_exchange(request, keep_alive_, parser.get().version() >= 11);
  request.body = std::move(parser.get().body());
  dispatch(std::move(request), exchange);
  co_await respond(exchange);
  co_return keep_alive_ && !closed_;
}

asio::awaitable<bool> Connection::read_body(Parser& parser, BodyCount& body) {
  if (parser.is_done()) co_return true;
  if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    const bool sent = co_await write_all("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return false;
  }
  const auto end = Clock::now() + state_->limits.body_total_timeout;
  parser.eager(true);
  while (!parser.is_done()) {
    deadline_ = std::min(Clock::now() + state_->limits.body_timeout, end);
    const auto error = co_await parse_some(parser);
    if (error) {
      const auto [status, message] = describe(error, state_->limits);
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
  const std::shared_ptr<ServerState> state = state_;
  const std::shared_ptr<ResponseWriter> writer(exchange.get(), [exchange, state](ResponseWriter*) {
    exchange->abandon(state->callbacks.failure(500, "The request was dropped without an answer."));
  });
  try {
    state_->callbacks.handler(std::move(request), writer);
  } catch (const std::exception& fault) {
    spdlog::error("A request handler failed: {}", fault.what());
    writer->send(state_->callbacks.failure(500, "Internal server error."));
  }
}

asio::awaitable<void> Connection::respond(std::shared_ptr<Exchange> exchange) {
  watching_ = true;
  asio::co_spawn(
      stream_.executor(), [self = shared_from_this()] { return self->watch(); }, asio::detached);
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
  if (watching_) stream_.cancel();
  while (watching_) co_await wait_wake();
}

/// Reads ahead while a response is under way: the end of the stream means that the client is gone.
asio::awaitable<void> Connection::watch() {
  while (buffer_.size() < kPipelineBytes) {
    const auto error = co_await read_more();
    if (error == asio::error::operation_aborted) break;
    if (error) {
      close();
      break;
    }
  }
  watching_ = false;
  wake();
}

asio::awaitable<bool> Connection::write_all(std::string bytes) {
  size_t done = 0;
  while (done < bytes.size() && !closed_) {
    set_deadline(state_->limits.write_timeout);
    const size_t slice = std::min(kWriteSlice, bytes.size() - done);
    const auto [error, count] = co_await stream_.write(asio::buffer(bytes.data() + done, slice));
    if (error) co_return false;
    done += count;
  }
  co_return done == bytes.size();
}

asio::awaitable<void> Connection::refuse(int status, const std::string& message) {
  return send_and_close(state_->callbacks.failure(status, message));
}

/// Answers a request whose body was not read. What the client still sends is read for a while, since closing on unread
/// bytes would reset the connection and could take the answer with it.
asio::awaitable<void> Connection::send_and_close(HttpResponse response, bool head_only) {
  response.close = true;
  Exchange exchange({false, head_only, true, 0, response_headers_}, [] {});
  exchange.send(std::move(response));
  const bool sent = co_await write_all(exchange.take().bytes);
  keep_alive_ = false;
  if (!sent) co_return;
  set_deadline(kGoodbye);
  co_await stream_.linger(kLingerBytes);
}

}  // namespace quire
