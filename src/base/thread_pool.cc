// How a loop runs: the caller publishes it by opening `gate` under a new epoch; workers that see the open gate join by
// counting themselves in, take tasks until none is left, and count themselves out. The caller takes tasks as well; then
// it closes the gate and waits only for those that joined, so a worker that wakes late costs nothing.
#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/cgroup_limits.h"
#include "base/check.h"
#include "base/cpu_topology.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace quire {
namespace {

constexpr uint64_t kJoinedMask = 0xffff;  // gate: workers inside in the low bits, then the open bit, then the epoch
constexpr uint64_t kOpen = uint64_t{1} << 16;
constexpr uint64_t kEpoch = uint64_t{1} << 17;
constexpr auto kSpinTime = std::chrono::microseconds(50);

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/// Polls `ready` for a short while; true as soon as it holds.
template <typename Condition>
bool spin_until(const Condition& ready) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu >= CPU_SETSIZE) return;
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);  // refused: then the scheduler places it
}

// The loop that this thread is inside, to run nested calls inline.
thread_local const void* current_pool = nullptr;
thread_local int current_worker = 0;

}  // namespace

struct ThreadPool::State {
  int size = 1;
  bool spin = false;
  std::vector<int> worker_cpus;  // empty: not pinned
  std::vector<std::thread> threads;
  std::mutex one_loop;

  // The loop; written only while the gate is closed and nobody is inside.
  Task task = nullptr;
  void* context = nullptr;
  int64_t tasks = 0;

  alignas(64) std::atomic<uint64_t> gate{0};
  std::atomic<bool> stop{false};
  alignas(64) std::atomic<int64_t> next{0};
  alignas(64) std::atomic<int> parked{0};  // workers that wait for `wake` to change, or are about to
  std::atomic<uint32_t> wake{0};
  std::atomic<bool> caller_parked{false};
  std::atomic<uint32_t> done{0};

  // The first exception of a loop; its other tasks are then dropped.
  std::mutex fault_mutex;
  std::exception_ptr fault;

  void take_tasks(int worker) {
    const void* const outer_pool = std::exchange(current_pool, this);
    const int outer_worker = std::exchange(current_worker, worker);
    try {
      for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < tasks;
           i = next.fetch_add(1, std::memory_order_relaxed)) {
        task(context, i, worker);
      }
    } catch (...) {
      next.store(tasks, std::memory_order_relaxed);
      const std::lock_guard lock(fault_mutex);
      if (!fault) fault = std::current_exception();
    }
    current_pool = outer_pool;
    current_worker = outer_worker;
  }

  void work(int worker);
  void wait_for_loop(uint64_t seen_epoch);
  void wait_for_joined();
};

namespace {

bool is_news(uint64_t gate, uint64_t seen_epoch) { return (gate & kOpen) != 0 && gate / kEpoch != seen_epoch; }

}  // namespace

void ThreadPool::State::wait_for_loop(uint64_t seen_epoch) {
  const auto ready = [&] { return is_news(gate.load(), seen_epoch) || stop.load(); };
  if (spin && spin_until(ready)) return;
  parked.fetch_add(1);
  for (uint32_t signal = wake.load(); !ready(); signal = wake.load()) wake.wait(signal);
  parked.fetch_sub(1);
}

void ThreadPool::State::work(int worker) {
  if (!worker_cpus.empty()) pin_to(worker_cpus[static_cast<size_t>(worker)]);
  uint64_t seen_epoch = 0;
  while (true) {
    wait_for_loop(seen_epoch);
    if (stop.load()) return;
    uint64_t seen = gate.load();
    while (is_news(seen, seen_epoch) && !gate.compare_exchange_weak(seen, seen + 1)) {
    }
    if (!is_news(seen, seen_epoch)) continue;  // closed meanwhile
    seen_epoch = seen / kEpoch;
    take_tasks(worker);
    const uint64_t left = gate.fetch_sub(1) - 1;
    if ((left & (kJoinedMask | kOpen)) == 0 && caller_parked.load()) {
      done.fetch_add(1);
      done.notify_one();
    }
  }
}

void ThreadPool::State::wait_for_joined() {
  const auto ready = [&] { return (gate.load() & kJoinedMask) == 0; };
  if (ready() || (spin && spin_until(ready))) return;
  caller_parked.store(true);
  for (uint32_t signal = done.load(); !ready(); signal = done.load()) done.wait(signal);
  caller_parked.store(false);
}

ThreadPool::ThreadPool(ThreadPoolOptions options) : state_(std::make_unique<State>()) {
  QUIRE_CHECK(options.threads >= 0);
  const std::vector<int> cpus = options.cpus.empty() ? allowed_cpus() : options.cpus;
  state_->size = std::min<int>(options.threads > 0 ? options.threads : default_compute_threads(), kJoinedMask);
  state_->spin = state_->size <= static_cast<int>(cpus.size()) && !cgroup_cpu_quota().has_value();
  const bool one_each = state_->size == static_cast<int>(cpus.size());
  if (one_each && options.pin) state_->worker_cpus = cpus;
  for (int worker = 1; worker < state_->size; ++worker) {
    state_->threads.emplace_back([state = state_.get(), worker] { state->work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true);
  state_->wake.fetch_add(1);
  state_->wake.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

int ThreadPool::size() const { return state_->size; }

void ThreadPool::pin_caller() const {
  if (!state_->worker_cpus.empty()) pin_to(state_->worker_cpus[0]);
}

void ThreadPool::run(int64_t tasks, Task task, void* context) {
  State& state = *state_;
  const bool nested = current_pool == &state;
  if (nested || tasks <= 1 || state.size == 1) {
    for (int64_t i = 0; i < tasks; ++i) task(context, i, nested ? current_worker : 0);
    return;
  }
  const std::lock_guard lock(state.one_loop);
  state.task = task;
  state.context = context;
  state.tasks = tasks;
  state.next.store(0, std::memory_order_relaxed);
  const uint64_t epoch = state.gate.load() / kEpoch + 1;
  state.gate.store(epoch * kEpoch + kOpen);
  if (state.parked.load() > 0) {
    state.wake.fetch_add(1);
    state.wake.notify_all();
  }
  state.take_tasks(0);
  state.gate.fetch_and(~kOpen);
  state.wait_for_joined();
  if (state.fault) std::rethrow_exception(std::exchange(state.fault, nullptr));
}

int default_compute_threads() {
  const int allowed = static_cast<int>(allowed_cpus().size());
  const std::optional<double> quota = cgroup_cpu_quota();
  if (!quota) return allowed;
  return std::clamp(static_cast<int>(std::ceil(*quota)), 1, allowed);
}

}  // namespace quire
