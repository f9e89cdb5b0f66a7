#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "base/check.h"
#include "engine/steady_seconds.h"

namespace quire {
namespace {

/// Requests that may be admitted past one that lacks blocks; then the queue waits for it.
constexpr int64_t kMaxAdmissionsPast = 32;
/// Waiting requests that cannot start now and that one step looks past.
constexpr int64_t kMaxLookPast = 32;
/// Without chunking: steps that decodes may keep a prompt from its budget; then it takes the budget first.
constexpr int64_t kMaxStepsWithoutRoom = 8;
/// Under a cap on adapters: this share of the seats is kept from any one of them, so that a burst on it leaves others
/// some to start in at once.
constexpr int64_t kShareOfSeatsKept = 8;
/// Prefill tokens that a step may take beside decodes however long it becomes, so that prompts never stand still.
constexpr int64_t kLeastPrefillTokens = 32;
/// Far above every budget, with room to count up and down.
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 2;

int64_t seats_of_one_adapter(const SchedulerLimits& limits) {
  if (!limits.max_loras) return limits.max_num_seqs;
  return std::max<int64_t>(1, limits.max_num_seqs - std::max<int64_t>(1, limits.max_num_seqs / kShareOfSeatsKept));
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, KvCacheManager& cache)
    : limits_(limits),
      long_threshold_(limits.long_prefill_token_threshold > 0 ? limits.long_prefill_token_threshold
                                                              : limits.max_num_batched_tokens),
      seats_of_one_adapter_(seats_of_one_adapter(limits)),
      cache_(cache),
      turns_(limits.max_loras),
      waiting_(limits.policy, turns_.capped()) {
  QUIRE_CHECK(limits.max_num_seqs > 0 && limits.max_num_batched_tokens >= limits.max_num_seqs);
  QUIRE_CHECK(limits.max_loras.value_or(1) > 0);
}

void Scheduler::add(RequestState* request) {
  QUIRE_CHECK(request->stage == RequestStage::kQueued);
  request->stage = RequestStage::kWaiting;
  waiting_.push(request);
  turns_.count_waiting(request->request.adapter_id, 1);
  if (!is_long(*request)) ++short_waiting_;
}

void Scheduler::remove(RequestState* request) {
  if (request->stage == RequestStage::kWaiting) {
    waiting_.remove(request);
    turns_.count_waiting(request->request.adapter_id, -1);
    if (!is_long(*request)) --short_waiting_;
  } else if (request->stage == RequestStage::kRunning) {
    std::erase(running_, request);
    turns_.count_running(request->request.adapter_id, -1);
    cache_.close(request->blocks);
    ++memory_epoch_;
  }
  request->stage = RequestStage::kQueued;
  request->scheduled = 0;
}

const std::vector<RequestState*>& Scheduler::schedule() {
  turns_.begin_step();
  int64_t reserved = 0;
  if (!limits_.chunked_prefill && steps_without_room_ >= kMaxStepsWithoutRoom) {
    if (const RequestState* head = WaitingQueue::Walk(waiting_, turns_).next()) {
      reserved = std::min(head->total(), limits_.max_num_batched_tokens);
      steps_without_room_ = 0;
    }
  }
  plan_passes(reserved);
  // The head may have lacked blocks in spite of the reserve; then the decodes run after all.
  if (scheduled_.empty() && reserved > 0) {
    turns_.begin_step();
    plan_passes(0);
  }
  QUIRE_CHECK(!scheduled_.empty() || !has_requests());
  turns_.end_step(scheduled_);
  return scheduled_;
}

void Scheduler::plan_passes(int64_t reserved_for_whole_prompt) {
  for (RequestState* request : running_) request->scheduled = 0;
  budget_ = {.tokens = limits_.max_num_batched_tokens - reserved_for_whole_prompt};
  step_budget_ = limits_.max_num_batched_tokens;
  plan_chosen_adapters(reserved_for_whole_prompt);
  while (budget_.tokens > 0 &&
         turns_.pass_places_on(running_, !budget_.preempted && running_count() < limits_.max_num_seqs)) {
    plan_chosen_adapters(0);
  }
  collect_scheduled();
}

void Scheduler::plan_chosen_adapters(int64_t reserved_for_whole_prompt) {
  schedule_decodes();
  budget_.tokens += reserved_for_whole_prompt;
  set_prefill_share();
  set_long_share();
  schedule_prefills();
  drop_preempted();
  // What was just preempted would be the first to come back, and to be preempted again.
  if (!budget_.preempted) admit_waiting();
  top_up_prefills();
}

void Scheduler::schedule_decodes() {
  for (RequestState* request : running_) {
    if (budget_.tokens == 0) return;
    if (!awaits_tokens(*request) || !request->decoding()) continue;
    if (make_room(*request, 1)) take_budget(*request, 1);
  }
}

void Scheduler::schedule_prefills() {
  for (RequestState* request : running_) {
    if (budget_.prefill_room() == 0) return;
    if (!awaits_tokens(*request) || request->decoding()) continue;
    const int64_t tokens = chunk_for(*request);
    if (tokens > 0 && make_room(*request, tokens)) take_budget(*request, tokens);
  }
}

bool Scheduler::short_prefill_pending() const {
  if (short_waiting_ > 0 && running_count() < limits_.max_num_seqs) return true;
  return std::ranges::any_of(running_, [this](const RequestState* request) {
    return request->stage == RequestStage::kRunning && !request->decoding() && !is_long(*request);
  });
}

StepLoad Scheduler::load_so_far() const {
  StepLoad load;
  for (const RequestState* request : running_) {
    if (request->scheduled == 0) continue;
    if (request->decoding()) {
      ++load.decode_rows;
      load.decode_context += request->total();
    } else {
      load.add_prefill(request->scheduled, request->num_computed);
    }
  }
  return load;
}

/// While requests decode, the prefills get the tokens that keep the step within its target. All of them count as coming
/// after the longest of the contexts under way, since which of them will take the tokens is not known yet.
void Scheduler::set_prefill_share() {
  budget_.prefill_tokens = kUnlimited;
  if (!limits_.target_itl_seconds) return;
  const StepLoad load = load_so_far();
  if (load.decode_rows == 0) return;
  int64_t start = 0;
  for (const RequestState* request : running_) {
    if (awaits_tokens(*request) && !request->decoding()) start = std::max(start, request->num_computed);
  }
  const int64_t within =
      time_model_.prefill_tokens_within(*limits_.target_itl_seconds, load, start, limits_.max_num_batched_tokens);
  const int64_t least = std::max<int64_t>(0, kLeastPrefillTokens - load.prefill_tokens);
  budget_.prefill_tokens = std::min(budget_.tokens, std::max(within, least));
  step_budget_ = load.decode_rows + load.prefill_tokens + budget_.prefill_tokens;
}

void Scheduler::set_long_share() {
  const bool share = limits_.chunked_prefill && short_prefill_pending();
  budget_.long_tokens = share ? (budget_.prefill_room() + 1) / 2 : budget_.prefill_room();
}

/// Tokens of its prompt that the request may compute with what is left of the budget.
int64_t Scheduler::chunk_for(const RequestState& request) const {
  const int64_t cap = limits_.chunked_prefill && is_long(request) ? budget_.long_tokens : budget_.prefill_room();
  return std::min({request.remaining(), cap, budget_.prefill_room()});
}

void Scheduler::take_budget(RequestState& request, int64_t tokens) {
  request.scheduled += tokens;
  budget_.tokens -= tokens;
  if (request.decoding()) return;
  budget_.prefill_tokens -= tokens;
  if (is_long(request)) budget_.long_tokens = std::max<int64_t>(0, budget_.long_tokens - tokens);
}

/// Blocks for the request's next tokens, taken from the latest running requests if need be. False when it was itself
/// preempted.
bool Scheduler::make_room(RequestState& request, int64_t tokens) {
  while (!cache_.grow(request.blocks, request.total(), request.num_computed + tokens)) {
    RequestState& victim = latest_running();
    // Admission made sure that every request can run alone.
    const auto alive = std::ranges::count(running_, RequestStage::kRunning, &RequestState::stage);
    QUIRE_CHECK(&victim != &request || alive > 1);
    preempt(victim);
    if (&victim == &request) return false;
  }
  return true;
}

RequestState& Scheduler::latest_running() const {
  const bool by_priority = limits_.policy == SchedulingPolicy::kPriority;
  const auto key = [by_priority](const RequestState* request) {
    return std::make_tuple(request->stage == RequestStage::kRunning, by_priority ? request->request.priority : 0,
                           request->arrival);
  };
  return **std::ranges::max_element(running_, {}, key);
}

/// The victim keeps its sampled tokens; prompt and output are computed again when it comes back. It leaves running_ in
/// drop_preempted().
void Scheduler::preempt(RequestState& victim) {
  cache_.close(victim.blocks);
  ++memory_epoch_;
  budget_.tokens += victim.scheduled;
  if (!victim.decoding()) budget_.prefill_tokens += victim.scheduled;
  budget_.preempted = true;
  victim.scheduled = 0;
  victim.num_computed = 0;
  victim.prompt_logprobs.clear();
  ++victim.usage.preemptions;
  ++counters_.preemptions;
  victim.stage = RequestStage::kWaiting;
  waiting_.push(&victim);
  turns_.count_waiting(victim.request.adapter_id, 1);
  turns_.count_running(victim.request.adapter_id, -1);
  if (!is_long(victim)) ++short_waiting_;
}

void Scheduler::start_over() {
  for (RequestState* request : running_) preempt(*request);
  running_.clear();
  scheduled_.clear();
  const bool all_free = cache_.reset_prefix_cache();
  QUIRE_CHECK(all_free);
}

void Scheduler::drop_preempted() {
  if (!budget_.preempted) return;
  std::erase_if(running_, [](const RequestState* request) { return request->stage != RequestStage::kRunning; });
}

void Scheduler::admit_waiting() {
  passed_.clear();
  int64_t looked_past = 0;
  if (waiting_.empty() || running_count() >= limits_.max_num_seqs) return;
  WaitingQueue::Walk walk(waiting_, turns_);
  for (RequestState* next = walk.next(); next != nullptr && looked_past <= kMaxLookPast; next = walk.next()) {
    if (budget_.prefill_room() == 0 || running_count() >= limits_.max_num_seqs) return;
    RequestState& request = *next;
    if (fills_its_seats(request)) {
      walk.leave_lane();
      continue;
    }
    if (limits_.chunked_prefill && is_long(request) && budget_.long_tokens == 0) {
      // The long share is spent: only shorter ones can still start in this step.
      ++looked_past;
      continue;
    }
    const Admission admission = try_admit(request);
    if (admission == Admission::kNoBudget) {
      ++steps_without_room_;
      return;
    }
    if (admission == Admission::kAdmitted) {
      for (RequestState* passed : passed_) ++passed->admissions_passed;
      continue;
    }
    // A light request may pass one that lacks blocks, but not for ever, and never one that was already running.
    if (request.admissions_passed >= kMaxAdmissionsPast || request.usage.preemptions > 0) return;
    passed_.push_back(&request);
    ++looked_past;
  }
}

bool Scheduler::fills_its_seats(const RequestState& request) const {
  return turns_.capped() && turns_.running(request.request.adapter_id) >= seats_of_one_adapter_;
}

Scheduler::Admission Scheduler::try_admit(RequestState& request) {
  if (request.tried_at_epoch == memory_epoch_) return Admission::kNoBlocks;
  const bool read_cache = !request.wants_prompt_logprobs();
  const int64_t cached = cache_.open(request.blocks, request.tokens, request.cache_extra, read_cache);
  request.num_computed = cached;
  const int64_t tokens = chunk_for(request);
  const bool fits_budget = limits_.chunked_prefill || tokens == request.remaining();
  // A block in reserve for each running request: or else the next step would preempt what this one admits.
  const bool admitted = fits_budget && cache_.grow(request.blocks, request.total(), cached + tokens, running_count());
  if (admitted) {
    start_running(request, tokens, cached);
    return Admission::kAdmitted;
  }
  cache_.close(request.blocks);
  request.num_computed = 0;
  if (!fits_budget) return Admission::kNoBudget;
  request.tried_at_epoch = memory_epoch_;
  return Admission::kNoBlocks;
}

void Scheduler::start_running(RequestState& request, int64_t tokens, int64_t cached) {
  waiting_.remove(&request);
  turns_.count_running(request.request.adapter_id, 1);
  turns_.count_waiting(request.request.adapter_id, -1);
  if (!is_long(request)) --short_waiting_;
  request.stage = RequestStage::kRunning;
  request.admissions_passed = 0;
  request.tried_at_epoch = -1;
  running_.push_back(&request);
  take_budget(request, tokens);
  steps_without_room_ = 0;
  if (request.usage.preemptions > 0) return;
  request.usage.scheduled_time = steady_seconds();
  request.usage.cached_tokens = cached;
  counters_.prompt_tokens += request.prompt_tokens;
  counters_.prompt_tokens_cached += cached;
  if (request.wants_prompt_logprobs() || !cache_.caching()) return;
  counters_.prefix_cache_queries += request.prompt_tokens;
  counters_.prefix_cache_hits += cached;
}

/// Budget that the shorter prompts left over goes to the long ones after all.
void Scheduler::top_up_prefills() {
  if (!limits_.chunked_prefill) return;
  for (RequestState* request : running_) {
    if (budget_.prefill_room() == 0) return;
    const int64_t more = std::min(request->remaining() - request->scheduled, budget_.prefill_room());
    if (more <= 0 || request->decoding() || !turns_.may_run(request->request.adapter_id)) continue;
    const int64_t chunk_end = request->num_computed + request->scheduled + more;
    if (cache_.grow(request->blocks, request->total(), chunk_end)) take_budget(*request, more);
  }
}

void Scheduler::collect_scheduled() {
  scheduled_.clear();
  for (RequestState* request : running_) {
    if (request->scheduled > 0) scheduled_.push_back(request);
  }
  const auto key = [](const RequestState* request) {
    return std::make_tuple(request->request.adapter_id, request->arrival);
  };
  if (!std::ranges::is_sorted(scheduled_, {}, key)) std::ranges::sort(scheduled_, {}, key);
  load_ = load_so_far();
}

void Scheduler::mark_computed(RequestState& request) {
  request.num_computed += request.scheduled;
  request.scheduled = 0;
  if (cache_.commit(request.blocks, request.tokens, request.num_computed)) ++memory_epoch_;
}

void Scheduler::check_adapter_counts() const {
  std::map<uint64_t, AdapterLoad> counted;
  const auto count = [&](const RequestState& request) {
    const uint64_t id = request.request.adapter_id;
    if (id == 0) return;
    AdapterLoad& load = counted.try_emplace(id, AdapterLoad{id, 0, 0}).first->second;
    ++(request.stage == RequestStage::kRunning ? load.running : load.waiting);
  };
  for (const RequestState* request : running_) count(*request);
  waiting_.for_each(count);
  const std::vector<AdapterLoad> loads = turns_.loads();
  QUIRE_CHECK(loads.size() == counted.size());
  for (const AdapterLoad& load : loads)
    QUIRE_CHECK(counted.contains(load.adapter_id) && counted[load.adapter_id] == load);
}

void Scheduler::check_integrity() const {
  std::vector<const SequenceBlocks*> live;
  int64_t short_waiting = 0;
  for (const RequestState* request : running_) {
    QUIRE_CHECK(request->stage == RequestStage::kRunning);
    QUIRE_CHECK(request->num_computed < request->total());
    live.push_back(&request->blocks);
  }
  waiting_.for_each([&](const RequestState& request) {
    QUIRE_CHECK(request.stage == RequestStage::kWaiting && request.num_computed == 0);
    short_waiting += is_long(request) ? 0 : 1;
    live.push_back(&request.blocks);
  });
  check_adapter_counts();
  QUIRE_CHECK(short_waiting == short_waiting_);
  QUIRE_CHECK(running_count() <= limits_.max_num_seqs);
  cache_.check_integrity(live);
}

}  // namespace quire
