// Ranks that mpirun or Slurm started, on one machine or several: the processes are there already, one of them this.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "distributed/partition.h"
#include "engine/engine_config.h"
#include "engine/ranks/rank_host.h"

namespace quire {

/// This process's place in the job that an MPI launcher started it in, as the launcher's environment tells it; nothing
/// outside of one, and in a job of one.
std::optional<ParallelRank> mpi_place();

/// Refuses a job of another number of ranks than `config` divides the model over.
Status check_mpi_job(const EngineConfig& config, const ParallelRank& job);

/// Rank 0's hold on the job of mpi_place().
Result<std::unique_ptr<RankHost>> join_mpi_ranks();

/// Another rank's life in the job, to its end; its exit code.
int serve_mpi_rank();

}  // namespace quire
