// A counter in memory that several processes map: one side counts up, others wait for it without using the CPU.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace quire {

/// A hint to the CPU that this is a loop that waits.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/// Counts modulo 2^32; two sides are never further apart than 2^31. All zero bytes is a counter at 0.
struct SharedCounter {
  std::atomic<uint32_t> value;
  std::atomic<uint32_t> waiters;  ///< parked, or about to

  bool reached(uint32_t target) const {
    return static_cast<int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
  }
  /// Makes all that was written before visible to those who see `next`, and wakes whoever is parked.
  void publish(uint32_t next);
  /// Parks until the counter moves, `longest` has passed, or for no reason at all: check again after it.
  void park(uint32_t target, std::chrono::nanoseconds longest);
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace quire
