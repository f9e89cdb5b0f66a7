// Ranks as threads of the test: each gets a transport over one shared segment and runs the same function. Under mpirun
// (QUIRE_TEST_MPI), with_world() runs it on this process's rank instead, so that one test serves both.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "distributed/mpi/mpi_transport.h"
#include "distributed/parallel_state.h"
#include "distributed/shm/shm_transport.h"

namespace quire {

/// Small chunks, so that short messages need several; parking at once, unless `spin` says otherwise.
inline SegmentOptions small_segment(int ranks) {
  SegmentOptions options;
  options.ranks = ranks;
  options.channels = 16;
  options.chunk_bytes = 64 * SharedSegment::kMaxRanks;
  return options;
}

inline std::shared_ptr<SharedSegment> make_segment(const SegmentOptions& options) {
  auto segment = SharedSegment::create(options);
  if (!segment.ok()) throw std::runtime_error(segment.error().message);
  return *segment;
}

/// Runs fn(rank) on a thread for each rank.
inline void on_threads(int ranks, const std::function<void(int)>& fn) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&fn, rank] { fn(rank); });
  for (std::thread& thread : threads) thread.join();
}

/// Runs fn(world) on this process's rank of an MPI job.
inline void with_mpi_world(int ranks, const std::function<void(GroupCoordinator&)>& fn) {
  static const auto transport = MpiTransport::create();  // one a process
  ASSERT_TRUE(transport.ok()) << transport.error().message;
  ASSERT_EQ((*transport)->world_size(), ranks);
  std::vector<int> everybody;
  for (int rank = 0; rank < ranks; ++rank) everybody.push_back(rank);
  // One for all tests: channels of the memory file are never given back.
  static const auto world = GroupCoordinator::create("world:0", **transport, {everybody}, Device{});
  ASSERT_TRUE(world.ok()) << world.error().message;
  (*world)->set_timeout(std::chrono::seconds(30));
  fn(**world);
}

/// Runs fn(world) on each rank's thread, with its group of all ranks.
inline void with_world(const SegmentOptions& options, const std::function<void(GroupCoordinator&)>& fn) {
  if (std::getenv("QUIRE_TEST_MPI") != nullptr) return with_mpi_world(options.ranks, fn);
  const std::shared_ptr<SharedSegment> segment = make_segment(options);
  on_threads(options.ranks, [&](int rank) {
    ParallelState state;
    ASSERT_TRUE(state.init_distributed_environment(std::make_unique<ShmTransport>(segment, rank)).ok());
    fn(state.world());
  });
}

/// A value that says which rank and element it is of, and whose sums round.
inline float rank_value(int rank, int64_t index) {
  return 0.1f * static_cast<float>(rank + 1) + 1.7f * static_cast<float>(index % 1013) * (rank % 2 == 0 ? 1.0f : -0.3f);
}

inline Tensor rank_tensor(int rank, int64_t rows, int64_t cols, int64_t padding = 0) {
  const Tensor x = Tensor::empty(rows, cols + padding, DType::kFloat32).slice_cols(0, cols);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) x.row<float>(row)[col] = rank_value(rank, row * cols + col);
  }
  return x;
}

/// The sum over the ranks, in their order.
inline float sum_of_ranks(int ranks, int64_t index) {
  float sum = rank_value(0, index);
  for (int rank = 1; rank < ranks; ++rank) sum += rank_value(rank, index);
  return sum;
}

}  // namespace quire
