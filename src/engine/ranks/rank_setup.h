// How the ranks of one model get together: what rank 0 tells them, the groups they form, and agreeing on errors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "distributed/parallel_state.h"
#include "engine/executor.h"
#include "engine/ranks/rank_host.h"
#include "engine/worker.h"

namespace quire {

/// What rank 0 has settled for all ranks.
struct RankSetup {
  std::string model;  ///< path of the checkpoint
  std::string files;  ///< fingerprint_of() the checkpoint, where all ranks see the same disk; else empty
  std::vector<std::string> model_plugins;  ///< libraries with models
  WorkerSettings settings;
  int tensor_parallel_size = 1;
  int pipeline_parallel_size = 1;
  int threads = 0;  ///< of all ranks together; 0: as many as each finds for itself
  RankHost::Sharing sharing = RankHost::Sharing::kProcesses;
  /// Of the process that reads this: its place among the ranks that share its CPUs and its stage. Not sent.
  ParallelRank cpu_place;
  std::string kernels;  ///< name of the arithmetic, which must be the same on all ranks

  std::string to_text() const;
  static Result<RankSetup> from_text(const std::string& text);

  RankPlace place_of(int rank) const {
    return {{rank % tensor_parallel_size, tensor_parallel_size}, {rank / tensor_parallel_size, pipeline_parallel_size}};
  }
  /// That rank's share of the threads and of the allowed CPUs. Stages run one after the other: each may have them all.
  ThreadPoolOptions threads_of(int rank) const;
};

/// One rank's groups.
struct RankGroups {
  ParallelState state;
  /// All ranks, for the thread that loads adapters while another runs steps.
  std::shared_ptr<GroupCoordinator> adapters;
  /// The tensor parallel ranks of a stage, for the same thread.
  std::shared_ptr<GroupCoordinator> adapter_parts;
};

/// Called by every rank: rank 0's `setup` becomes that of all, and the groups are formed.
Result<std::unique_ptr<RankGroups>> join_ranks(std::unique_ptr<RankTransport> transport, RankSetup& setup);

/// Called by every rank with how it fared: the first Error by rank, naming it, on all ranks; or success.
Status agree(GroupCoordinator& group, const Status& own);

/// Called by every rank once its model is built: all get the cache's groups of the whole model.
Status share_cache_groups(Worker& worker, RankGroups& groups);

/// What each rank takes, by rank.
struct RankSizes {
  std::vector<int64_t> block_bytes;  ///< Worker::block_bytes()
  std::vector<int64_t> weight_bytes;
  std::vector<int64_t> threads;
};

/// Called by every rank once its weights are loaded.
Result<RankSizes> share_sizes(const Worker& worker, GroupCoordinator& world);

/// The order that rank 0 sends instead of a step to have share_times() called; no step has its length.
constexpr std::string_view kTimesOrder = "times";

/// Called by every rank between two steps: what the steps of each took.
Result<std::vector<RankTimes>> share_times(const Worker& worker, RankGroups& groups);

/// Called by every rank: rank 0's blocks of each group become those of all.
Status share_blocks(std::vector<int64_t>& blocks_per_group, GroupCoordinator& world);

}  // namespace quire
