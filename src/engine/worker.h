// One rank's share of a model and what it takes to run steps on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/huge_page_arena.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "distributed/partition.h"
#include "engine/model_runner.h"
#include "engine/step_plan.h"
#include "kv_cache/kv_cache_storage.h"
#include "lora/lora_manager.h"
#include "models/model.h"

namespace quire {

/// What all ranks of a model must agree on.
struct WorkerSettings {
  DType storage = DType::kFloat32;  ///< of unquantized weights
  /// How linears are stored: "" as `storage`, "int8", "int4" (quantization/linear_method.h) or "gguf".
  std::string quantization;
  bool quantize_lm_head = false;     ///< embedding and head as the linears
  DType lora = DType::kFloat32;      ///< of adapters
  DType kv_cache = DType::kFloat32;  ///< of keys and values
  int64_t max_positions = 0;         ///< that rotary tables cover
  int64_t block_size = 0;
  std::string ignore_unexpected_weights;  ///< a regular expression; empty: none
  std::vector<int64_t> layers_per_stage;  ///< empty: as partition_layers() divides them
  bool fully_sharded_loras = false;       ///< tensor parallel ranks divide both matrices of an adapter
};

/// A rank's places: which part of each layer it holds, and of which layers.
struct RankPlace {
  ParallelRank tensor_parallel;
  ParallelRank stage;
};

/// Steps, build() and load_weights() belong to one thread at a time. With more than one rank that thread has entered a
/// ParallelState (CurrentParallelState) whose groups are those of `place`, and all ranks do the same.
class Worker {
 public:
  Worker(RankPlace place, ThreadPoolOptions threads);

  /// Makes the model, its weights still empty. An Error says what the architecture cannot do.
  Status build(const ModelConfig& config, const WorkerSettings& settings);
  /// Reads this rank's part of the checkpoint. `progress` is told of each tensor's bytes.
  Status load_weights(const WeightSource& weights, const std::function<void(int64_t)>& progress);
  /// Reserves the cache, the same number of blocks on all ranks. Throws StartupError when it cannot be had.
  void allocate_cache(const std::vector<int64_t>& blocks_per_group);

  /// Of this stage's attention layers, in order.
  std::vector<KvCacheSpec> kv_cache_specs() const { return model_->kv_cache_specs(); }
  /// At first of this stage's layers alone.
  const std::vector<KvCacheGroup>& kv_cache_groups() const { return groups_; }
  /// With several stages: what the attention layers of all need, in order. From then on the groups are those of the
  /// whole model, the same on all ranks, with this stage's layers in them.
  void set_all_kv_cache_specs(const std::vector<std::vector<KvCacheSpec>>& stages);
  /// Bytes that one block of every group takes here.
  int64_t block_bytes() const;
  int64_t weight_bytes() const { return static_cast<int64_t>(arena_.allocated_bytes()); }
  /// How its weights are stored, for the log: "int8 106.2 MB, bfloat16 56.6 MB".
  std::string weight_summary() const;
  int threads() const { return pool_.size(); }
  /// Pins the calling thread, which will run the steps, where the pool's other threads are pinned.
  void pin_caller() const { pool_.pin_caller(); }

  /// Runs one step. With several ranks rank 0 alone has results.
  Status execute(const StepPlan& plan, StepResult& result);
  /// How long all steps so far took.
  std::chrono::nanoseconds step_time() const { return step_time_; }
  /// Once weights are loaded; from any thread.
  LoraManager& adapters() { return *adapters_; }

 private:
  // In the order in which they must be destroyed, last to first.
  const RankPlace place_;
  ThreadPool pool_;
  Workspace workspace_;
  OpContext context_;
  HugePageArena arena_;
  ParameterTable parameters_;
  AdaptableLayers adaptable_;
  WorkerSettings settings_;
  int64_t vocab_size_ = 0;
  std::unique_ptr<LinearMethod> linear_method_;
  std::unique_ptr<LinearMethod> table_method_;  ///< where it is another
  std::unique_ptr<LayerContext> layer_context_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<LoraManager> adapters_;
  std::vector<KvCacheGroup> groups_;
  std::unique_ptr<KvCacheStorage> kv_cache_;
  std::unique_ptr<ModelRunner> runner_;
  std::chrono::nanoseconds step_time_{0};
};

}  // namespace quire
