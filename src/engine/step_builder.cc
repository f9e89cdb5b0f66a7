#include "engine/step_builder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/steady_seconds.h"
#include "sampling/repetition.h"

namespace quire {
namespace {

void add_prompt_logprobs(const RequestState& request, ScheduledSequence& sequence) {
  sequence.next_prompt_tokens = {};
  sequence.prompt_logprob_count = 0;
  if (!request.wants_prompt_logprobs()) return;
  const int64_t known = std::min(request.scheduled, request.prompt_tokens - 1 - request.num_computed);
  if (known <= 0) return;
  sequence.next_prompt_tokens = std::span(request.tokens).subspan(request.num_computed + 1, known);
  sequence.prompt_logprob_count = *request.request.sampling.prompt_logprobs;
}

void fill(const RequestState& request, ScheduledSequence& sequence) {
  sequence.tokens = std::span(request.tokens).subspan(request.num_computed, request.scheduled);
  sequence.start = request.num_computed;
  sequence.block_tables.clear();
  for (const std::vector<int32_t>& table : request.blocks.tables) sequence.block_tables.emplace_back(table);
  sequence.sample = request.scheduled == request.remaining();
  sequence.sampling = {};
  if (sequence.sample) {
    const bool edited = request.edits != nullptr && request.edits->active();
    sequence.sampling = {&request.request.sampling,
                         request.seed,
                         request.total(),
                         request.request.choice,
                         edited ? request.edits.get() : nullptr,
                         request.logprobs_mode};
  }
  sequence.adapter_id = request.request.adapter_id;
  add_prompt_logprobs(request, sequence);
}

/// The end that the request's last token brings, if any. A stop outranks the length, and that a repetition.
FinishReason judge_end(const RequestState& request, std::optional<int32_t>& stop_token_id) {
  const SamplingParams& sampling = request.request.sampling;
  const int32_t token = request.tokens.back();
  const bool limit_reached = request.total() >= request.max_total_tokens;
  if (request.output_tokens() <= sampling.min_tokens)
    return limit_reached ? FinishReason::kLength : FinishReason::kNone;
  if (!sampling.ignore_eos && std::ranges::count(request.request.eos_token_ids, token) > 0) return FinishReason::kStop;
  if (std::ranges::count(sampling.stop_token_ids, token) > 0) {
    stop_token_id = token;
    return FinishReason::kStop;
  }
  if (limit_reached) return FinishReason::kLength;
  const auto output = std::span(request.tokens).subspan(static_cast<size_t>(request.prompt_tokens));
  const bool circles = sampling.repetition_detection && repeats(output, *sampling.repetition_detection);
  return circles ? FinishReason::kRepetition : FinishReason::kNone;
}

}  // namespace

void build_plan(const std::vector<RequestState*>& scheduled, StepPlan& plan) {
  plan.sequences.resize(scheduled.size());
  plan.total_tokens = 0;
  for (size_t i = 0; i < scheduled.size(); ++i) {
    fill(*scheduled[i], plan.sequences[i]);
    plan.total_tokens += scheduled[i]->scheduled;
  }
}

RequestOutput apply_result(RequestState& request, SequenceResult&& result, bool sampled) {
  std::ranges::move(result.prompt_logprobs, std::back_inserter(request.prompt_logprobs));
  RequestOutput output;
  if (!sampled) return output;
  RequestUsage& usage = request.usage;
  usage.last_token_time = steady_seconds();
  if (usage.completion_tokens == 0) usage.first_token_time = usage.last_token_time;
  ++usage.completion_tokens;
  request.tokens.push_back(result.token.token);
  if (request.edits != nullptr) request.edits->add_output(result.token.token);
  output.id = request.request.id;
  output.finish_reason = judge_end(request, output.stop_token_id);
  output.tokens.push_back(std::move(result.token));
  if (request.wants_prompt_logprobs()) {
    output.prompt_logprobs = std::exchange(request.prompt_logprobs, {});
    request.prompt_logprobs_delivered = true;
  }
  output.usage = usage;
  return output;
}

RequestOutput final_output(const RequestState& request, FinishReason reason, std::optional<Error> error) {
  RequestOutput output;
  output.id = request.request.id;
  output.finish_reason = reason;
  output.error = std::move(error);
  output.usage = request.usage;
  return output;
}

}  // namespace quire
