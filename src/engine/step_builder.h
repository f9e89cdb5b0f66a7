// Between the scheduler's choice and the executor: requests to a StepPlan, and a StepResult back to requests.
#pragma once

#include <vector>

#include "engine/request_state.h"
#include "engine/step_plan.h"

namespace quire {

/// Fills `plan` for the scheduled requests, in their order. Its spans point into the requests and hold until those
/// change.
void build_plan(const std::vector<RequestState*>& scheduled, StepPlan& plan);

/// Books what a step gave a request whose tokens are marked as computed: gathers prompt logprobs and, where the step
/// sampled, appends the token and judges whether that ends the request. The output has no token while the prompt is not
/// complete.
RequestOutput apply_result(RequestState& request, SequenceResult&& result, bool sampled);

/// An output that ends the request without a new token (kAbort, kError).
RequestOutput final_output(const RequestState& request, FinishReason reason, std::optional<Error> error = std::nullopt);

}  // namespace quire
