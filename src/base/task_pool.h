// A few threads for work that is too long for the thread that it comes up on: parsing, tokenizing, loading adapters.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace quire {

/// Runs tasks in order of arrival. The queue is bounded: a full one is the caller's cue to answer 503.
class TaskPool {
 public:
  TaskPool(int threads, size_t max_queued);
  ~TaskPool();  ///< drops what has not begun, waits for what has
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  /// False when the queue is full. `task` must not throw.
  bool submit(std::function<void()> task);

 private:
  void run();

  const size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable available_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace quire
