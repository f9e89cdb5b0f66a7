// The pool's queue and threads.
#include "base/task_pool.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

namespace quire {

TaskPool::TaskPool(int threads, size_t max_queued) : max_queued_(max_queued) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

TaskPool::~TaskPool() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(queue_);
  }
  available_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool TaskPool::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= max_queued_) return false;
    queue_.push_back(std::move(task));
  }
  available_.notify_one();
  return true;
}

void TaskPool::run() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      available_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    try {
      task();
    } catch (const std::exception& fault) {
      spdlog::error("A server task failed: {}", fault.what());
    }
  }
}

}  // namespace quire
