// The compute pool: pinned workers that take small chunks of work, spin briefly, then park.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/api.h"

namespace quire {

struct ThreadPoolOptions {
  /// Threads that compute, the caller of parallel_for included; 0 takes default_compute_threads().
  int threads = 0;
  /// Pin workers 1, 2, ... to the CPUs of the same place in `cpus`. Only done when there are as many workers as CPUs:
  /// with fewer, two processes would meet on the first CPUs while others idle.
  bool pin = true;
  /// The CPUs that this pool may count on; empty takes allowed_cpus().
  std::vector<int> cpus;
};

/// Runs loops over its workers. The thread that calls parallel_for is worker 0 and computes too; one loop runs at a
/// time. Which worker runs which task is not fixed: tasks must not depend on it, nor on each other.
class QUIRE_API ThreadPool {
 public:
  explicit ThreadPool(ThreadPoolOptions options = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Number of workers, the calling thread included.
  int size() const;

  /// Pins the calling thread, as worker 0, to the first CPU where the other workers are pinned too (or would be, if
  /// there were any). Threads that it starts afterwards inherit that.
  void pin_caller() const;

  /// Calls fn(int64_t task, int worker) once for each task in [0, tasks), in ascending order as workers become free,
  /// and returns when all are done. If one throws, tasks not begun are dropped and the first exception is thrown here.
  /// A call from within `fn` runs on the worker that makes it.
  template <typename Function>
  void parallel_for(int64_t tasks, Function&& fn) {
    using Callable = std::remove_reference_t<Function>;
    run(
        tasks, [](void* context, int64_t task, int worker) { (*static_cast<Callable*>(context))(task, worker); },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

 private:
  using Task = void (*)(void* context, int64_t task, int worker);
  void run(int64_t tasks, Task task, void* context);

  struct State;
  std::unique_ptr<State> state_;
};

/// Threads to compute with by default: the allowed CPUs, cut to the cgroup's CPU quota (rounded up); at least 1.
QUIRE_API int default_compute_threads();

}  // namespace quire
