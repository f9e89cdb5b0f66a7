#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "base/cpu_topology.h"

namespace quire {
namespace {

TEST(ThreadPoolTest, RunsEachTaskOnceOnAKnownWorker) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool({.threads = threads});
    ASSERT_EQ(pool.size(), threads);
    for (const int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> counts(static_cast<size_t>(tasks));
      std::atomic<bool> worker_known = true;
      pool.parallel_for(tasks, [&](int64_t task, int worker) {
        counts[static_cast<size_t>(task)].fetch_add(1);
        if (worker < 0 || worker >= threads) worker_known = false;
      });
      EXPECT_TRUE(worker_known);
      for (const auto& count : counts) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPoolTest, WhatTasksWroteIsSeenAfterwards) {
  ThreadPool pool({.threads = 4});
  std::vector<int64_t> values(64);
  for (int64_t round = 1; round <= 2000; ++round) {
    pool.parallel_for(64, [&](int64_t task, int) { values[static_cast<size_t>(task)] += task * round; });
  }
  for (int64_t task = 0; task < 64; ++task) EXPECT_EQ(values[static_cast<size_t>(task)], task * 2000 * 2001 / 2);
}

TEST(ThreadPoolTest, AWorkerIsNeverInTwoTasksAtOnce) {
  ThreadPool pool({.threads = 3});
  std::vector<std::atomic<int>> inside(3);
  std::atomic<bool> alone = true;
  for (int round = 0; round < 300; ++round) {
    pool.parallel_for(16, [&](int64_t, int worker) {
      if (inside[static_cast<size_t>(worker)].fetch_add(1) != 0) alone = false;
      inside[static_cast<size_t>(worker)].fetch_sub(1);
    });
  }
  EXPECT_TRUE(alone);
}

TEST(ThreadPoolTest, ANestedLoopRunsOnItsWorker) {
  ThreadPool pool({.threads = 2});
  std::atomic<int> inner{0};
  std::atomic<bool> same_worker = true;
  pool.parallel_for(8, [&](int64_t, int outer) {
    pool.parallel_for(5, [&](int64_t, int worker) {
      inner.fetch_add(1);
      if (worker != outer) same_worker = false;
    });
  });
  EXPECT_EQ(inner.load(), 40);
  EXPECT_TRUE(same_worker);
}

TEST(ThreadPoolTest, ASingleTaskStaysOnTheCaller) {
  ThreadPool pool({.threads = 4});
  std::thread::id ran_on;
  pool.parallel_for(1, [&](int64_t, int) { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(ThreadPoolTest, ParkedWorkersWakeAgain) {
  ThreadPool pool({.threads = 4});
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));  // far beyond the time that workers spin
    std::mutex mutex;
    std::set<int> workers;
    // Tasks that wait for each other: done only if four workers take one each.
    std::atomic<int> arrived{0};
    pool.parallel_for(4, [&](int64_t, int worker) {
      arrived.fetch_add(1);
      while (arrived.load() < 4) std::this_thread::yield();
      const std::lock_guard lock(mutex);
      workers.insert(worker);
    });
    EXPECT_EQ(workers.size(), 4u);
  }
}

TEST(ThreadPoolTest, LoopsOfSeveralThreadsTakeTurns) {
  ThreadPool pool({.threads = 2});
  std::atomic<int> count{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) pool.parallel_for(4, [&](int64_t, int) { count.fetch_add(1); });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(count.load(), 3 * 200 * 4);
}

TEST(ThreadPoolTest, AnExceptionReachesTheCallerAndThePoolGoesOn) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool({.threads = threads});
    for (int round = 0; round < 50; ++round) {
      EXPECT_THROW(pool.parallel_for(100,
                                     [](int64_t task, int) {
                                       if (task % 10 == 7) throw std::bad_alloc();
                                     }),
                   std::bad_alloc);
      std::atomic<int> count{0};
      pool.parallel_for(8, [&](int64_t, int) { count.fetch_add(1); });
      EXPECT_EQ(count.load(), 8);
    }
  }
}

TEST(ThreadPoolTest, CPUS_07_WorkersSpreadOverTheAllowedCpus) {
  const std::vector<int> allowed = allowed_cpus();
  if (allowed.size() < 2 || allowed.size() > 64) GTEST_SKIP() << "needs 2 to 64 allowed CPUs";
  ThreadPool pool({.threads = static_cast<int>(allowed.size())});
  std::vector<int> cpu_of(allowed.size(), -1);
  std::atomic<size_t> arrived{0};
  pool.parallel_for(static_cast<int64_t>(allowed.size()), [&](int64_t, int worker) {
    arrived.fetch_add(1);
    while (arrived.load() < allowed.size()) std::this_thread::yield();
    cpu_of[static_cast<size_t>(worker)] = sched_getcpu();
  });
  for (size_t worker = 1; worker < allowed.size(); ++worker) EXPECT_EQ(cpu_of[worker], allowed[worker]);
}

}  // namespace
}  // namespace quire
