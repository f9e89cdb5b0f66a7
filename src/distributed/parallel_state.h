// Which groups a rank belongs to, by vLLM's names: world, tp (tensor parallel) and pp (pipeline parallel).
//
// vLLM keeps this in globals of the process. Here it is an object that a rank owns, because tests run several ranks as
// threads of one process. The free functions below, for layers and models, work on the state that the calling thread
// has entered with CurrentParallelState; a rank's thread enters its state once, around all that it does. A thread that
// has entered none is a rank by itself only in that model_parallel_is_initialized() is false: asking it for a group
// throws CheckFailure.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "distributed/group_coordinator.h"
#include "distributed/rank_transport.h"

namespace quire {

/// One rank's groups. Set up and destroyed by one thread.
class ParallelState {
 public:
  ParallelState() = default;
  ~ParallelState();
  ParallelState(const ParallelState&) = delete;
  ParallelState& operator=(const ParallelState&) = delete;

  /// Makes the world group over all ranks of `transport`; called by every rank.
  Status init_distributed_environment(std::unique_ptr<RankTransport> transport, Device device = {});
  /// Divides the world into tensor parallel groups of adjacent ranks, and pipeline parallel groups across them: with
  /// sizes 2 and 3, tp is {0 1} {2 3} {4 5} and pp is {0 2 4} {1 3 5}. Refuses sizes whose product is not the world's
  /// size. Called by every rank.
  Status initialize_model_parallel(int tensor_parallel_size = 1, int pipeline_parallel_size = 1);

  bool distributed_environment_is_initialized() const { return world_ != nullptr; }
  bool model_parallel_is_initialized() const { return tensor_parallel_ != nullptr; }
  /// Ends the groups tp and pp.
  void destroy_model_parallel();
  /// Ends all groups and the transport.
  void destroy_distributed_environment();

  // Throw CheckFailure before the initialisation above.
  GroupCoordinator& world() const;
  GroupCoordinator& tensor_parallel() const;
  GroupCoordinator& pipeline_parallel() const;
  RankTransport& transport() const;

  /// A living group by its unique name ("tp:0"); nullptr if there is none. The registry does not keep groups alive.
  std::shared_ptr<GroupCoordinator> find_group(const std::string& unique_name) const;

  /// The state that the calling thread has entered, or nullptr.
  static ParallelState* current();

 private:
  friend class CurrentParallelState;
  Result<std::shared_ptr<GroupCoordinator>> create_group(const std::string& name,
                                                         const std::vector<std::vector<int>>& groups);

  std::unique_ptr<RankTransport> transport_;
  Device device_;
  std::shared_ptr<GroupCoordinator> world_;
  std::shared_ptr<GroupCoordinator> tensor_parallel_;
  std::shared_ptr<GroupCoordinator> pipeline_parallel_;
  std::map<std::string, int> name_counts_;
  std::map<std::string, std::weak_ptr<GroupCoordinator>> registry_;
};

/// While it lives, `state` is what the free functions below work on in this thread.
class CurrentParallelState {
 public:
  explicit CurrentParallelState(ParallelState& state);
  ~CurrentParallelState();
  CurrentParallelState(const CurrentParallelState&) = delete;
  CurrentParallelState& operator=(const CurrentParallelState&) = delete;

 private:
  ParallelState* previous_;
};

/// The ranks of each tensor parallel and each pipeline parallel group of a world of tp * pp ranks.
std::vector<std::vector<int>> tensor_parallel_groups(int tensor_parallel_size, int pipeline_parallel_size);
std::vector<std::vector<int>> pipeline_parallel_groups(int tensor_parallel_size, int pipeline_parallel_size);

// On the calling thread's state.
GroupCoordinator& get_world_group();
GroupCoordinator& get_tp_group();
GroupCoordinator& get_pp_group();
/// False also where the thread has entered no state.
bool model_parallel_is_initialized();
int get_tensor_model_parallel_world_size();
int get_tensor_model_parallel_rank();

}  // namespace quire
