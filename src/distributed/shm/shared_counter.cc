#include "distributed/shm/shared_counter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace quire {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the kernel's futex takes the word as it lies");

}  // namespace

// The store of `value` and the load of `waiters` here, the count of `waiters` and the kernel's load of `value` there,
// are sequentially consistent: one of the sides sees the other.
void SharedCounter::publish(uint32_t next) {
  value.store(next, std::memory_order_seq_cst);
  if (waiters.load(std::memory_order_seq_cst) > 0) {
    syscall(SYS_futex, &value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void SharedCounter::park(uint32_t target, std::chrono::nanoseconds longest) {
  waiters.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t seen = value.load(std::memory_order_seq_cst);
  if (static_cast<int32_t>(seen - target) < 0 && longest.count() > 0) {
    timespec timeout;
    timeout.tv_sec = static_cast<time_t>(longest.count() / 1'000'000'000);
    timeout.tv_nsec = static_cast<long>(longest.count() % 1'000'000'000);
    syscall(SYS_futex, &value, FUTEX_WAIT, seen, &timeout, nullptr, 0);
  }
  waiters.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace quire
