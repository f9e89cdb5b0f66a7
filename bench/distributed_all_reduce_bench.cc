// How long a message takes between ranks of this machine: one-way of a barrier, all_reduce by size, and beside it what
// memcpy gives. Ranks are processes, made by fork, one CPU each where there are enough.
// Usage: distributed_all_reduce_bench [ranks] [chunk KiB] [spin microseconds]
#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/cpu_topology.h"
#include "distributed/shm/shm_transport.h"

namespace quire {
namespace {

constexpr int64_t kBytes[] = {
    64, 1024, 4096, 16384, 65536, 262144, int64_t{1} << 20, int64_t{4} << 20, int64_t{16} << 20};

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Median seconds of one call over several rounds of many calls.
double median_seconds(int calls, const auto& function) {
  std::vector<double> seconds;
  for (int round = 0; round < 9; ++round) {
    const double begin = now();
    for (int call = 0; call < calls; ++call) function();
    seconds.push_back((now() - begin) / calls);
  }
  std::nth_element(seconds.begin(), seconds.begin() + 4, seconds.end());
  return seconds[4];
}

bool run_rank(std::shared_ptr<SharedSegment> segment, int rank) {
  const std::vector<int> cpus = allowed_cpus();
  const int ranks = segment->ranks();
  if (ranks <= static_cast<int>(cpus.size())) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(cpus[static_cast<size_t>(rank)]), &set);
    sched_setaffinity(0, sizeof(set), &set);
  }
  ShmTransport transport(std::move(segment), rank);
  std::vector<int> everybody;
  for (int i = 0; i < ranks; ++i) everybody.push_back(i);
  auto made = transport.create_communicator("bench", {everybody});
  if (!made.ok()) return false;
  Communicator& group = **made;
  group.set_timeout(std::chrono::seconds(60));

  bool good = true;
  const double barrier = median_seconds(2000, [&] { good = group.barrier().ok() && good; });
  if (rank == 0) fmt::print("{} ranks; barrier {:.2f} us\n", ranks, barrier * 1e6);
  for (const int64_t bytes : kBytes) {
    std::vector<float> x(static_cast<size_t>(bytes) / sizeof(float), 1e-30f), y(x);
    const int calls = static_cast<int>(std::clamp<int64_t>((int64_t{64} << 20) / bytes, 8, 4000));
    const double beside = median_seconds(calls, [&] {
      good =
          group.all_reduce(block_of(static_cast<const void*>(x.data()), bytes), block_of(y.data(), bytes)).ok() && good;
    });
    const double in_place = median_seconds(calls, [&] {
      good =
          group.all_reduce(block_of(static_cast<const void*>(x.data()), bytes), block_of(x.data(), bytes)).ok() && good;
      if (ranks > 1) x.back() = 0.0f;
    });
    const double copy = median_seconds(calls, [&] {
      std::memcpy(y.data(), x.data(), static_cast<size_t>(bytes));
      asm volatile("" : : "r"(y.data()) : "memory");
    });
    if (rank == 0) {
      fmt::print(
          "{:>9} bytes: {:9.2f} us out of place, {:9.2f} us in place, {:6.2f} GB/s of message; memcpy on all ranks "
          "{:9.2f} us, {:6.2f} GB/s\n",
          bytes, beside * 1e6, in_place * 1e6, static_cast<double>(bytes) / in_place * 1e-9, copy * 1e6,
          static_cast<double>(bytes) / copy * 1e-9);
    }
  }
  return good;
}

int run(int argc, char** argv) {
  SegmentOptions options;
  options.ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  if (argc > 2) options.chunk_bytes = std::atoll(argv[2]) << 10;
  if (argc > 3) options.spin = std::chrono::microseconds(std::atoi(argv[3]));
  auto segment = SharedSegment::create(options);
  if (!segment.ok()) {
    fmt::print(stderr, "{}\n", segment.error().message);
    return 1;
  }
  std::vector<pid_t> children;
  for (int rank = 1; rank < options.ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) _exit(run_rank(*segment, rank) ? 0 : 1);
    children.push_back(child);
  }
  bool good = run_rank(*segment, 0);
  for (const pid_t child : children) {
    int status = 0;
    good = waitpid(child, &status, 0) == child && status == 0 && good;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) { return quire::run(argc, argv); }
