#include "distributed/shm/heartbeat.h"

#include <unistd.h>

#include <utility>

namespace quire {

Heartbeat::Heartbeat(std::shared_ptr<SharedSegment> segment, int rank, int parent)
    : segment_(std::move(segment)), thread_([this, rank, parent] { run(rank, parent); }) {}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Heartbeat::run(int rank, int parent) {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    segment_->rank_line(rank).heartbeat.fetch_add(1, std::memory_order_relaxed);
    if (parent > 0 && getppid() != parent) _exit(1);
    wake_.wait_for(lock, kHeartbeatInterval);
  }
}

}  // namespace quire
