// Runs steps on every rank. The engine knows nothing of models, ranks or devices beyond this.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/step_plan.h"
#include "kv_cache/kv_cache_spec.h"

namespace quire {

class Executor {
 public:
  virtual ~Executor() = default;
  /// Groups in the order in which ScheduledSequence::block_tables lists them.
  virtual const std::vector<KvCacheGroup>& kv_cache_groups() const = 0;
  /// Runs one step. An Error fails the requests in the plan, not the engine.
  virtual Status execute(const StepPlan& plan, StepResult& result) = 0;
};

}  // namespace quire
