#include "engine/create_executor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "distributed/partition.h"
#include "engine/ranks/mpi_ranks.h"
#include "engine/ranks/multi_rank_executor.h"
#include "engine/single_process_executor.h"

namespace quire {
namespace {

/// Where the layers of each stage are given.
Status check_layer_partition(const EngineConfig& config, const ModelConfig& model) {
  const std::vector<int64_t>& layers = config.pipeline_layer_partition;
  const auto refuse = [&](const std::string& why) {
    return invalid_argument(fmt::format("--pipeline-layer-partition {} {}", fmt::join(layers, ","), why),
                            "pipeline_layer_partition");
  };
  if (layers.empty()) return {};
  if (static_cast<int>(layers.size()) != config.pipeline_parallel_size) {
    return refuse(fmt::format("names {} stages, but --pipeline-parallel-size is {}", layers.size(),
                              config.pipeline_parallel_size));
  }
  if (std::ranges::min(layers) < 1) return refuse("leaves a stage without a layer");
  const int64_t sum = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  if (sum == model.num_hidden_layers) return {};
  return refuse(fmt::format("adds up to {} layers, but the model has {}", sum, model.num_hidden_layers));
}

/// Said before anything is started.
Status check_sizes(const EngineConfig& config, const ModelConfig& model) {
  if (config.tensor_parallel_size < 1 || config.pipeline_parallel_size < 1) {
    return invalid_argument("--tensor-parallel-size and --pipeline-parallel-size must be at least 1",
                            "tensor_parallel_size");
  }
  if (config.pipeline_parallel_size > model.num_hidden_layers) {
    return invalid_argument(fmt::format("a pipeline parallel size of {} is more than the model's {} layers",
                                        config.pipeline_parallel_size, model.num_hidden_layers),
                            "pipeline_parallel_size");
  }
  QUIRE_RETURN_IF_ERROR(check_layer_partition(config, model));
  if (config.tensor_parallel_size == 1) return {};
  const auto heads =
      partition_heads(model.num_attention_heads, model.num_key_value_heads, {0, config.tensor_parallel_size});
  return heads.ok() ? Status() : Status(heads.error());
}

}  // namespace

Result<LoadedExecutor> create_executor(const EngineConfig& config, Checkpoint&& checkpoint,
                                       const ProgressCallback& progress) {
  QUIRE_RETURN_IF_ERROR(check_sizes(config, checkpoint.config));
  const int ranks = config.ranks();
  if (ranks == 1) return create_single_process_executor(config, std::move(checkpoint), progress);
  const std::optional<ParallelRank> job = mpi_place();
  if (job) QUIRE_RETURN_IF_ERROR(check_mpi_job(config, *job));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<RankHost> host, job ? join_mpi_ranks() : start_rank_processes(ranks));
  return create_multi_rank_executor(config, std::move(checkpoint), progress, std::move(host));
}

}  // namespace quire
