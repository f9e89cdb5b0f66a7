// What all connections of an HttpServer share: its limits and callbacks, and the counts that the limits are held
// against.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>

#include "server/http/http_server.h"

namespace quire {

struct ServerState {
  HttpLimits limits;
  HttpCallbacks callbacks;
  std::shared_ptr<TlsContext> tls;  ///< nullptr: plain HTTP
  std::chrono::milliseconds tick{1000};
  std::atomic<size_t> active{0};
  std::atomic<size_t> connections{0};
  std::atomic<size_t> body_bytes{0};
  std::atomic<bool> stopping{false};
};

/// Counts a request as active while it lives.
class ActiveCount {
 public:
  explicit ActiveCount(ServerState& state) : state_(state) { state_.active.fetch_add(1); }
  ~ActiveCount() { state_.active.fetch_sub(1); }
  ActiveCount(const ActiveCount&) = delete;
  ActiveCount& operator=(const ActiveCount&) = delete;

 private:
  ServerState& state_;
};

/// The bytes of one request's body among those of all, while it lives.
class BodyCount {
 public:
  explicit BodyCount(ServerState& state) : state_(state) {}
  ~BodyCount() { state_.body_bytes.fetch_sub(counted_); }
  BodyCount(const BodyCount&) = delete;
  BodyCount& operator=(const BodyCount&) = delete;

  /// False when all bodies together are too many.
  bool grow_to(size_t bytes) {
    const size_t more = bytes - counted_;
    counted_ = bytes;
    return state_.body_bytes.fetch_add(more) + more <= state_.limits.max_total_body_bytes;
  }

 private:
  ServerState& state_;
  size_t counted_ = 0;
};

}  // namespace quire
