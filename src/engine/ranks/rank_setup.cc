#include "engine/ranks/rank_setup.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/cpu_topology.h"

namespace quire {

std::string RankSetup::to_text() const {
  return nlohmann::json{{"model", model},
                        {"files", files},
                        {"model_plugins", model_plugins},
                        {"ignore_unexpected_weights", settings.ignore_unexpected_weights},
                        {"layers_per_stage", settings.layers_per_stage},
                        {"fully_sharded_loras", settings.fully_sharded_loras},
                        {"storage", static_cast<int>(settings.storage)},
                        {"quantization", settings.quantization},
                        {"quantize_lm_head", settings.quantize_lm_head},
                        {"lora", static_cast<int>(settings.lora)},
                        {"kv_cache", static_cast<int>(settings.kv_cache)},
                        {"max_positions", settings.max_positions},
                        {"block_size", settings.block_size},
                        {"tensor_parallel_size", tensor_parallel_size},
                        {"pipeline_parallel_size", pipeline_parallel_size},
                        {"threads", threads},
                        {"sharing", static_cast<int>(sharing)},
                        {"kernels", kernels}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<RankSetup> RankSetup::from_text(const std::string& text) {
  try {
    const nlohmann::json fields = nlohmann::json::parse(text);
    RankSetup setup;
    fields.at("model").get_to(setup.model);
    fields.at("files").get_to(setup.files);
    fields.at("model_plugins").get_to(setup.model_plugins);
    fields.at("ignore_unexpected_weights").get_to(setup.settings.ignore_unexpected_weights);
    fields.at("layers_per_stage").get_to(setup.settings.layers_per_stage);
    fields.at("fully_sharded_loras").get_to(setup.settings.fully_sharded_loras);
    setup.settings.storage = static_cast<DType>(fields.at("storage").get<int>());
    fields.at("quantization").get_to(setup.settings.quantization);
    fields.at("quantize_lm_head").get_to(setup.settings.quantize_lm_head);
    setup.settings.lora = static_cast<DType>(fields.at("lora").get<int>());
    setup.settings.kv_cache = static_cast<DType>(fields.at("kv_cache").get<int>());
    fields.at("max_positions").get_to(setup.settings.max_positions);
    fields.at("block_size").get_to(setup.settings.block_size);
    fields.at("tensor_parallel_size").get_to(setup.tensor_parallel_size);
    fields.at("pipeline_parallel_size").get_to(setup.pipeline_parallel_size);
    fields.at("threads").get_to(setup.threads);
    setup.sharing = static_cast<RankHost::Sharing>(fields.at("sharing").get<int>());
    fields.at("kernels").get_to(setup.kernels);
    return setup;
  } catch (const nlohmann::json::exception& error) {
    return internal_error(std::string("rank 0's set-up does not read as one: ") + error.what());
  }
}

ThreadPoolOptions RankSetup::threads_of(int rank) const {
  const ParallelRank place = place_of(rank).tensor_parallel;
  ThreadPoolOptions options;
  options.threads = threads > 0 ? std::max(1, static_cast<int>(partition(threads, place).size())) : 0;
  options.pin = sharing != RankHost::Sharing::kThreads;
  const bool own_cpus = sharing == RankHost::Sharing::kOwnCpus;
  if (own_cpus && cpu_place.size == 1) return options;
  const ParallelRank share = own_cpus ? cpu_place : place;
  if (threads == 0) options.threads = std::max(1, static_cast<int>(partition(default_compute_threads(), share).size()));
  const std::vector<int> cpus = allowed_cpus();
  const Range own = partition(static_cast<int64_t>(cpus.size()), share);
  options.cpus.assign(cpus.begin() + own.begin, cpus.begin() + own.end);  // none: more ranks than CPUs
  return options;
}

Result<std::unique_ptr<RankGroups>> join_ranks(std::unique_ptr<RankTransport> transport, RankSetup& setup) {
  auto groups = std::make_unique<RankGroups>();
  const std::vector<int> same_cpus = transport->ranks_of_same_cpus();
  QUIRE_RETURN_IF_ERROR(groups->state.init_distributed_environment(std::move(transport)));
  GroupCoordinator& world = groups->state.world();
  std::string text = world.rank() == 0 ? setup.to_text() : std::string();
  QUIRE_RETURN_IF_ERROR(world.broadcast_object(text));
  QUIRE_ASSIGN_OR_RETURN(setup, RankSetup::from_text(text));
  setup.cpu_place = {0, 0};
  for (const int rank : same_cpus) {
    if (rank / setup.tensor_parallel_size != world.rank() / setup.tensor_parallel_size) continue;
    if (rank < world.rank()) ++setup.cpu_place.rank;
    ++setup.cpu_place.size;
  }
  QUIRE_RETURN_IF_ERROR(
      groups->state.initialize_model_parallel(setup.tensor_parallel_size, setup.pipeline_parallel_size));
  std::vector<int> everybody(static_cast<size_t>(world.world_size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  QUIRE_ASSIGN_OR_RETURN(
      groups->adapters, GroupCoordinator::create("adapters:0", groups->state.transport(), {everybody}, world.device()));
  QUIRE_ASSIGN_OR_RETURN(
      groups->adapter_parts,
      GroupCoordinator::create("adapter_parts:0", groups->state.transport(),
                               tensor_parallel_groups(setup.tensor_parallel_size, setup.pipeline_parallel_size),
                               world.device()));
  return groups;
}

Status agree(GroupCoordinator& group, const Status& own) {
  Status first;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    // The kind of the error, then its sentence; nothing for success.
    std::string said;
    if (rank == group.rank_in_group() && !own.ok()) {
      said = static_cast<char>('0' + static_cast<int>(own.error().kind)) + own.error().message;
    }
    QUIRE_RETURN_IF_ERROR(group.broadcast_object(said, rank));
    if (said.empty() || !first.ok()) continue;
    const std::string speaker = rank == 0 ? "" : "rank " + std::to_string(rank) + ": ";
    first = Error{static_cast<ErrorKind>(said[0] - '0'), speaker + said.substr(1), {}};
  }
  return first;
}

namespace {

/// All ranks' numbers, in their order.
Result<std::vector<int64_t>> gather_numbers(GroupCoordinator& group, int64_t own) {
  std::vector<int64_t> numbers(static_cast<size_t>(group.world_size()));
  const Tensor mine = Tensor::view(&own, 1, 1, DType::kInt64, group.device());
  Tensor all = Tensor::view(numbers.data(), 1, group.world_size(), DType::kInt64, group.device());
  QUIRE_RETURN_IF_ERROR(group.all_gather(mine, all));
  return numbers;
}

}  // namespace

Status share_cache_groups(Worker& worker, RankGroups& groups) {
  GroupCoordinator& pipeline = groups.state.pipeline_parallel();
  if (pipeline.world_size() == 1) return {};
  std::vector<std::vector<KvCacheSpec>> stages;
  for (int stage = 0; stage < pipeline.world_size(); ++stage) {
    // All ranks are of one build, so a specification's bytes mean the same everywhere.
    std::string bytes;
    if (stage == pipeline.rank_in_group()) {
      const std::vector<KvCacheSpec> own = worker.kv_cache_specs();
      bytes.assign(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(KvCacheSpec));
    }
    QUIRE_RETURN_IF_ERROR(pipeline.broadcast_object(bytes, stage));
    stages.emplace_back(bytes.size() / sizeof(KvCacheSpec));
    std::memcpy(stages.back().data(), bytes.data(), stages.back().size() * sizeof(KvCacheSpec));
  }
  worker.set_all_kv_cache_specs(stages);
  return {};
}

Result<RankSizes> share_sizes(const Worker& worker, GroupCoordinator& world) {
  RankSizes sizes;
  QUIRE_ASSIGN_OR_RETURN(sizes.block_bytes, gather_numbers(world, worker.block_bytes()));
  QUIRE_ASSIGN_OR_RETURN(sizes.weight_bytes, gather_numbers(world, worker.weight_bytes()));
  QUIRE_ASSIGN_OR_RETURN(sizes.threads, gather_numbers(world, worker.threads()));
  return sizes;
}

Result<std::vector<RankTimes>> share_times(const Worker& worker, RankGroups& groups) {
  const CommunicatorTimes& layers = groups.state.tensor_parallel().times();
  const CommunicatorTimes& stages = groups.state.pipeline_parallel().times();
  const int64_t own[] = {worker.step_time().count(), (layers.inside + stages.inside).count(),
                         (layers.waiting + stages.waiting).count(), layers.calls + stages.calls};
  std::vector<int64_t> all[std::size(own)];
  for (size_t i = 0; i < std::size(own); ++i) {
    QUIRE_ASSIGN_OR_RETURN(all[i], gather_numbers(groups.state.world(), own[i]));
  }
  std::vector<RankTimes> times;
  const auto seconds = [](int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; };
  for (size_t rank = 0; rank < all[0].size(); ++rank) {
    times.push_back({seconds(all[0][rank]), seconds(all[1][rank]), seconds(all[2][rank]), all[3][rank]});
  }
  return times;
}

Status share_blocks(std::vector<int64_t>& blocks_per_group, GroupCoordinator& world) {
  std::string bytes(reinterpret_cast<const char*>(blocks_per_group.data()), blocks_per_group.size() * sizeof(int64_t));
  QUIRE_RETURN_IF_ERROR(world.broadcast_object(bytes));
  blocks_per_group.resize(bytes.size() / sizeof(int64_t));
  std::memcpy(blocks_per_group.data(), bytes.data(), blocks_per_group.size() * sizeof(int64_t));
  return {};
}

}  // namespace quire
