#include "engine/create_executor.h"

#include <utility>

#include "distributed/partition.h"
#include "engine/ranks/mpi_ranks.h"
#include "engine/ranks/multi_rank_executor.h"
#include "engine/single_process_executor.h"

namespace quire {

Result<LoadedExecutor> create_executor(const EngineConfig& config, Checkpoint&& checkpoint,
                                       const ProgressCallback& progress) {
  if (config.tensor_parallel_size == 1) {
    return create_single_process_executor(config, std::move(checkpoint), progress);
  }
  if (config.tensor_parallel_size < 1) {
    return invalid_argument(
        "--tensor-parallel-size is " + std::to_string(config.tensor_parallel_size) + ", but must be at least 1",
        "tensor_parallel_size");
  }
  const std::optional<ParallelRank> job = mpi_place();
  if (job && job->size != config.tensor_parallel_size) {
    return invalid_argument("the MPI job has " + std::to_string(job->size) + " ranks, but --tensor-parallel-size is " +
                                std::to_string(config.tensor_parallel_size) + ": give both the same number",
                            "tensor_parallel_size");
  }
  // Said before anything is started.
  QUIRE_RETURN_IF_ERROR(partition_heads(checkpoint.config.num_attention_heads, checkpoint.config.num_key_value_heads,
                                        {0, config.tensor_parallel_size}));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<RankHost> host,
                         job ? join_mpi_ranks() : start_rank_processes(config.tensor_parallel_size));
  return create_multi_rank_executor(config, std::move(checkpoint), progress, std::move(host));
}

}  // namespace quire
