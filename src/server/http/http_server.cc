// The listener and the IO threads over which it spreads connections.
#include "server/http/await.h"
#include "server/http/http_server.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <utility>
#include <vector>

#include "server/http/connection.h"
#include "server/http/exchange.h"

namespace quire {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

}  // namespace

struct HttpServer::Impl {
  std::shared_ptr<ServerState> state = std::make_shared<ServerState>();
  std::vector<std::shared_ptr<IoLoop>> loops;
  std::unique_ptr<tcp::acceptor> acceptor;
  uint16_t port = 0;
  size_t next_loop = 0;
  bool stopped = false;

  Status listen(BoundAddress address) {
    QUIRE_RETURN_IF_ERROR(address.listen());
    port = address.port();
    acceptor = std::make_unique<tcp::acceptor>(loops[0]->context, address.is_ipv6() ? tcp::v6() : tcp::v4(),
                                               address.release());
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
    fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);  // ranks that are started again are no clients' peers
    socket.set_option(tcp::no_delay(true), ignored);
    if (state->connections.load(std::memory_order_relaxed) >= state->limits.max_connections) {
      if (state->tls != nullptr) return;  // a greeting for a refusal's sake would cost too much
      Exchange refusal({false, false, true, 0}, [] {});
      refusal.send(state->callbacks.failure(503, "The server has too many open connections."));
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(refusal.take().bytes), ignored);
      return;
    }
    auto connection = std::make_shared<Connection>(std::move(socket), loop, state);
    asio::post(loop->context, [connection] { connection->start(); });
  }

  void stop() {
    if (std::exchange(stopped, true)) return;
    state->stopping.store(true);
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

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options, HttpCallbacks callbacks,
                                                      BoundAddress address) {
  auto impl = std::make_unique<Impl>();
  impl->state->limits = options.limits;
  impl->state->tls = options.tls;
  impl->state->callbacks = std::move(callbacks);
  const HttpLimits& limits = options.limits;
  const auto shortest =
      std::min({limits.header_timeout, limits.body_timeout, limits.idle_timeout, limits.write_timeout});
  impl->state->tick = std::clamp(shortest / 4, std::chrono::milliseconds(10), std::chrono::milliseconds(1000));
  for (int i = 0; i < std::max(1, options.io_threads); ++i) impl->loops.push_back(std::make_shared<IoLoop>());
  QUIRE_RETURN_IF_ERROR(impl->listen(std::move(address)));
  Impl* raw = impl.get();
  asio::co_spawn(
      impl->loops[0]->context, [raw] { return raw->accept_loop(); }, asio::detached);
  for (const auto& loop : impl->loops) loop->thread = std::thread([loop] { loop->context.run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

uint16_t HttpServer::port() const { return impl_->port; }
size_t HttpServer::active_requests() const { return impl_->state->active.load(std::memory_order_relaxed); }
size_t HttpServer::connections() const { return impl_->state->connections.load(std::memory_order_relaxed); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace quire
