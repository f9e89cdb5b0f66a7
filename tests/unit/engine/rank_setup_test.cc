// How the ranks of a job divide threads and CPUs.
#include "engine/ranks/rank_setup.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/cpu_topology.h"

namespace quire {
namespace {

TEST(RankSetup, RanksThatMayRunOnTheSameCpusDivideThemAndTheThreads) {
  RankSetup setup;
  setup.tensor_parallel_size = 2;
  setup.sharing = RankHost::Sharing::kOwnCpus;
  int threads = 0;
  std::vector<int> cpus;
  for (int rank = 0; rank < 2; ++rank) {
    setup.cpu_place = {rank, 2};
    const ThreadPoolOptions options = setup.threads_of(rank);
    EXPECT_GE(options.threads, 1);
    threads += options.threads;
    cpus.insert(cpus.end(), options.cpus.begin(), options.cpus.end());
  }
  EXPECT_EQ(threads, std::max(2, default_compute_threads()));
  std::ranges::sort(cpus);
  EXPECT_EQ(cpus, allowed_cpus());

  setup.cpu_place = {0, 1};  // the launcher gave each CPUs of its own
  EXPECT_EQ(setup.threads_of(0).threads, 0);
  setup.threads = 5;
  EXPECT_EQ(setup.threads_of(0).threads, 3);
  EXPECT_EQ(setup.threads_of(1).threads, 2);
}

}  // namespace
}  // namespace quire
