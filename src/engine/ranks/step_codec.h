// A step's plan as rank 0 sends it to the others: what they need to compute it, and no more. They do not sample, so
// sampling parameters stay behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/step_plan.h"

namespace quire {

/// Appends nothing to what `message` held before: it is replaced.
void encode_step(const StepPlan& plan, std::string& message);

/// A received plan and the memory that it points into.
class ReceivedStep {
 public:
  /// Takes an encoded plan. An Error where `message` is none; `plan()` is then empty.
  Status decode(const std::string& message);
  const StepPlan& plan() const { return plan_; }

 private:
  std::vector<int32_t> words_;
  StepPlan plan_;
};

}  // namespace quire
