// What all routes share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/task_pool.h"
#include "server/metrics.h"
#include "server/serving_backend.h"

namespace quire {

/// Lets work that others call in later pass only while the server lives. Thread-safe.
class LifeGate {
 public:
  template <typename Action>
  void pass(Action&& action) {
    const std::lock_guard lock(mutex_);
    if (open_) action();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }

 private:
  std::mutex mutex_;
  bool open_ = true;
};

/// Who may load and unload adapters over HTTP.
enum class AdapterUpdates : uint8_t { kNoLora, kForbidden, kAllowed };

struct ServerContext {
  ServingBackend& backend;
  std::shared_ptr<Metrics> metrics;  ///< the engine's last callbacks may outlive the server
  TaskPool& pool;
  TaskPool& answer_pool;                 ///< one thread for large answers, so that they cannot hold up new requests
  std::vector<std::string> model_names;  ///< at least one; the first is the default
  std::string version;
  int64_t started = 0;  ///< seconds since 1970
  AdapterUpdates adapter_updates = AdapterUpdates::kNoLora;
  bool has_api_keys = false;
  std::shared_ptr<LifeGate> gate = std::make_shared<LifeGate>();
  std::atomic<bool> draining{false};  ///< shutting down: no new work
  std::atomic<uint64_t> next_request{0};
};

/// The id of an answer: the body's request_id, else a sane X-Request-Id header, else a random one.
std::string choose_request_id(const std::string& from_body, std::optional<std::string_view> from_header);

/// Seconds since 1970.
int64_t unix_time();

}  // namespace quire
