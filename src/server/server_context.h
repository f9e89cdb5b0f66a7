// What all routes share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/metrics.h"
#include "server/serving_backend.h"
#include "server/task_pool.h"

namespace quire {

struct ServerContext {
  ServingBackend& backend;
  std::shared_ptr<Metrics> metrics;  ///< the engine's last callbacks may outlive the server
  TaskPool& pool;
  TaskPool& answer_pool;                 ///< one thread for large answers, so that they cannot hold up new requests
  std::vector<std::string> model_names;  ///< at least one; the first is the default
  std::string version;
  int64_t started = 0;                ///< seconds since 1970
  std::atomic<bool> draining{false};  ///< shutting down: no new work
  std::atomic<uint64_t> next_request{0};
};

/// The served name for a request's `model`: absent or empty is the first; an unknown one is a not-found Error that
/// lists the known.
Result<std::string> resolve_model(const ServerContext& context, const std::optional<std::string>& asked);

/// The id of an answer: the body's request_id, else a sane X-Request-Id header, else a random one.
std::string choose_request_id(const std::string& from_body, std::optional<std::string_view> from_header);

/// Seconds since 1970.
int64_t unix_time();

}  // namespace quire
