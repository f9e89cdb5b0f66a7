#include "distributed/parallel_state.h"

#include <numeric>
#include <utility>

namespace quire {
namespace {

thread_local ParallelState* current_state = nullptr;

ParallelState& entered_state() {
  QUIRE_CHECK(current_state != nullptr);
  return *current_state;
}

}  // namespace

ParallelState::~ParallelState() { destroy_distributed_environment(); }

Status ParallelState::init_distributed_environment(std::unique_ptr<RankTransport> transport, Device device) {
  QUIRE_CHECK(transport != nullptr && !distributed_environment_is_initialized());
  transport_ = std::move(transport);
  device_ = device;
  std::vector<int> everybody(static_cast<size_t>(transport_->world_size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  QUIRE_ASSIGN_OR_RETURN(world_, create_group("world", {everybody}));
  return {};
}

Status ParallelState::initialize_model_parallel(int tensor_parallel_size, int pipeline_parallel_size) {
  QUIRE_CHECK(distributed_environment_is_initialized() && !model_parallel_is_initialized());
  const int ranks = transport_->world_size();
  if (tensor_parallel_size < 1 || pipeline_parallel_size < 1 ||
      int64_t{tensor_parallel_size} * pipeline_parallel_size != ranks) {
    return invalid_argument("a tensor parallel size of " + std::to_string(tensor_parallel_size) +
                                " and a pipeline parallel size of " + std::to_string(pipeline_parallel_size) +
                                " do not fit " + std::to_string(ranks) +
                                " ranks: their product must be the number of ranks",
                            "tensor_parallel_size");
  }
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<GroupCoordinator> tensor_parallel,
                         create_group("tp", tensor_parallel_groups(tensor_parallel_size, pipeline_parallel_size)));
  QUIRE_ASSIGN_OR_RETURN(pipeline_parallel_,
                         create_group("pp", pipeline_parallel_groups(tensor_parallel_size, pipeline_parallel_size)));
  tensor_parallel_ = std::move(tensor_parallel);
  return {};
}

Result<std::shared_ptr<GroupCoordinator>> ParallelState::create_group(const std::string& name,
                                                                      const std::vector<std::vector<int>>& groups) {
  const std::string unique_name = name + ":" + std::to_string(name_counts_[name]++);
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<GroupCoordinator> group,
                         GroupCoordinator::create(unique_name, *transport_, groups, device_));
  registry_[unique_name] = group;
  return group;
}

void ParallelState::destroy_model_parallel() {
  tensor_parallel_.reset();
  pipeline_parallel_.reset();
}

void ParallelState::destroy_distributed_environment() {
  destroy_model_parallel();
  world_.reset();
  transport_.reset();
}

GroupCoordinator& ParallelState::world() const {
  QUIRE_CHECK(world_ != nullptr);
  return *world_;
}

GroupCoordinator& ParallelState::tensor_parallel() const {
  QUIRE_CHECK(tensor_parallel_ != nullptr);
  return *tensor_parallel_;
}

GroupCoordinator& ParallelState::pipeline_parallel() const {
  QUIRE_CHECK(pipeline_parallel_ != nullptr);
  return *pipeline_parallel_;
}

RankTransport& ParallelState::transport() const {
  QUIRE_CHECK(transport_ != nullptr);
  return *transport_;
}

std::shared_ptr<GroupCoordinator> ParallelState::find_group(const std::string& unique_name) const {
  const auto found = registry_.find(unique_name);
  return found == registry_.end() ? nullptr : found->second.lock();
}

ParallelState* ParallelState::current() { return current_state; }

CurrentParallelState::CurrentParallelState(ParallelState& state) : previous_(std::exchange(current_state, &state)) {}
CurrentParallelState::~CurrentParallelState() { current_state = previous_; }

std::vector<std::vector<int>> tensor_parallel_groups(int tensor_parallel_size, int pipeline_parallel_size) {
  std::vector<std::vector<int>> groups(static_cast<size_t>(pipeline_parallel_size));
  for (int rank = 0; rank < tensor_parallel_size * pipeline_parallel_size; ++rank) {
    groups[static_cast<size_t>(rank / tensor_parallel_size)].push_back(rank);
  }
  return groups;
}

std::vector<std::vector<int>> pipeline_parallel_groups(int tensor_parallel_size, int pipeline_parallel_size) {
  std::vector<std::vector<int>> groups(static_cast<size_t>(tensor_parallel_size));
  for (int rank = 0; rank < tensor_parallel_size * pipeline_parallel_size; ++rank) {
    groups[static_cast<size_t>(rank % tensor_parallel_size)].push_back(rank);
  }
  return groups;
}

GroupCoordinator& get_world_group() { return entered_state().world(); }
GroupCoordinator& get_tp_group() { return entered_state().tensor_parallel(); }
GroupCoordinator& get_pp_group() { return entered_state().pipeline_parallel(); }
bool model_parallel_is_initialized() {
  return current_state != nullptr && current_state->model_parallel_is_initialized();
}
int get_tensor_model_parallel_world_size() { return get_tp_group().world_size(); }
int get_tensor_model_parallel_rank() { return get_tp_group().rank_in_group(); }

}  // namespace quire
