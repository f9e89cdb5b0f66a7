// Runs steps on every rank. The engine knows nothing of models, ranks or devices beyond this.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/step_plan.h"
#include "kv_cache/kv_cache_spec.h"
#include "lora/lora_adapter.h"

namespace quire {

/// What one rank's steps took so far: in all, and of that in operations with other ranks, and of that in waiting for
/// them to come, because their parts took longer or because their stages come first.
struct RankTimes {
  double steps = 0, collectives = 0, waiting = 0;  ///< seconds
  int64_t operations = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  /// Groups in the order in which ScheduledSequence::block_tables lists them.
  virtual const std::vector<KvCacheGroup>& kv_cache_groups() const = 0;
  /// Runs one step. An Error fails the requests in the plan, not the engine.
  virtual Status execute(const StepPlan& plan, StepResult& result) = 0;

  /// Reads and packs an adapter. Slow; from any thread, also while a step runs, which it does not hold up. Once it has
  /// returned, plans may name `adapter_id` (never 0, never one that was used before). An Error leaves nothing behind
  /// and names what does not fit the model.
  virtual Result<AdapterSummary> load_adapter(uint64_t adapter_id, const AdapterFiles& files) {
    (void)adapter_id;
    return unsupported("this executor takes no LoRA adapters: " + files.folder().string());
  }
  /// Of each rank, between two steps, for the thread that runs them. None where there is one rank.
  virtual std::vector<RankTimes> rank_times() { return {}; }

  /// Why no step can succeed any more, once that is so: kInternal where the step's own computation failed, another kind
  /// where a rank was lost. From any thread.
  virtual std::optional<Error> failure() const { return std::nullopt; }
  /// After a failure: makes steps possible again, with all adapters, but with nothing in the cache. An Error where that
  /// cannot be done.
  virtual Status recover() { return internal_error("this executor cannot recover"); }

  /// Frees an adapter that no plan will name again; from any thread, quick. Unknown ids are ignored.
  virtual void remove_adapter(uint64_t adapter_id) { (void)adapter_id; }
};

}  // namespace quire
