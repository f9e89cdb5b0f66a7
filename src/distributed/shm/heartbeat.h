// The sign of life of a rank's process, given by a thread of its own, so that a long step is no death.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "distributed/shm/shared_segment.h"

namespace quire {

constexpr auto kHeartbeatInterval = std::chrono::milliseconds(100);

/// Counts `rank`'s heartbeat up while it lives. With a `parent`, it also ends this process as soon as that is no longer
/// the parent process: a rank does not outlive rank 0.
class Heartbeat {
 public:
  Heartbeat(std::shared_ptr<SharedSegment> segment, int rank, int parent = 0);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void run(int rank, int parent);

  std::shared_ptr<SharedSegment> segment_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace quire
