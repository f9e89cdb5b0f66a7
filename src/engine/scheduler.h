// Decides what each step computes: one token budget, three passes, preemption by recompute.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/adapter_turns.h"
#include "engine/engine_config.h"
#include "engine/kv_cache_manager.h"
#include "engine/request_state.h"
#include "engine/step_time_model.h"
#include "engine/waiting_queue.h"

namespace quire {

struct SchedulerLimits {
  int64_t max_num_batched_tokens = 0;
  int64_t max_num_seqs = 0;
  int64_t long_prefill_token_threshold = 0;  ///< 0: a prompt is long when one step cannot hold it
  bool chunked_prefill = true;
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  std::optional<int64_t> max_loras;  ///< distinct adapters in a step; none: no cap
  /// Time that steps with decodes are kept to, by their prefill; none: the budget is max_num_batched_tokens.
  std::optional<double> target_itl_seconds;
};

struct SchedulerCounters {
  int64_t preemptions = 0;
  int64_t prefix_cache_queries = 0, prefix_cache_hits = 0;  ///< tokens, at first admissions
  int64_t prompt_tokens = 0, prompt_tokens_cached = 0;
};

/// Holds pointers to requests that others own; a request must be remove()d before it dies. The work of a step is
/// proportional to what it schedules. Under a cap on adapters (max_loras) they take turns: see AdapterTurns for who is
/// computed and WaitingQueue for who is admitted; what runs and is not in a step keeps its blocks.
class Scheduler {
 public:
  /// `cache` outlives the scheduler. max_num_batched_tokens must be at least max_num_seqs.
  Scheduler(const SchedulerLimits& limits, KvCacheManager& cache);

  /// Queues a request that can run alone in the cache.
  void add(RequestState* request);
  /// Takes a request out, whatever its stage, and frees its blocks.
  void remove(RequestState* request);

  /// Chooses the next step: the requests to compute, each with `scheduled` > 0 tokens and the blocks for them, ordered
  /// by adapter (base model first), then by arrival. Empty only when there are no requests.
  const std::vector<RequestState*>& schedule();

  /// What the step took from its planning to its bookkeeping, for the model of time; after schedule(), once.
  void observe_step_time(double seconds) { time_model_.observe(load_, seconds); }

  /// Tokens that the last step could have taken: max_num_batched_tokens, or its decodes and their prefill allowance.
  int64_t step_budget() const { return step_budget_; }

  /// The cache's contents are lost, the current step's too: running requests are recomputed, and no page is used again.
  void start_over();

  /// After the step: the scheduled tokens are computed. Registers full blocks.
  void mark_computed(RequestState& request);

  bool has_requests() const { return !running_.empty() || !waiting_.empty(); }
  int64_t running_count() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting_count() const { return waiting_.size(); }
  const SchedulerCounters& counters() const { return counters_; }
  const AdapterTurns& adapters() const { return turns_; }

  /// Throws CheckFailure if the books of requests and cache disagree.
  void check_integrity() const;

 private:
  /// What is left of the step being planned.
  struct StepBudget {
    int64_t tokens = 0;
    int64_t prefill_tokens = 0;  ///< share of it that prefills may take beside decodes
    int64_t long_tokens = 0;     ///< share of it that long prefills may take while shorter ones wait
    bool preempted = false;

    int64_t prefill_room() const { return std::min(tokens, prefill_tokens); }
  };
  enum class Admission { kAdmitted, kNoBlocks, kNoBudget };

  void plan_passes(int64_t reserved_for_whole_prompt);
  void plan_chosen_adapters(int64_t reserved_for_whole_prompt);
  void schedule_decodes();
  void set_prefill_share();
  void schedule_prefills();
  void set_long_share();
  void admit_waiting();
  void top_up_prefills();
  Admission try_admit(RequestState& request);
  void start_running(RequestState& request, int64_t tokens, int64_t cached);
  int64_t chunk_for(const RequestState& request) const;
  void take_budget(RequestState& request, int64_t tokens);
  bool make_room(RequestState& request, int64_t tokens);
  void preempt(RequestState& victim);
  RequestState& latest_running() const;
  bool is_long(const RequestState& request) const { return request.total() > long_threshold_; }
  /// Is to be computed in this step and has no tokens of it yet.
  bool awaits_tokens(const RequestState& request) const {
    return request.stage == RequestStage::kRunning && request.scheduled == 0 &&
           turns_.may_run(request.request.adapter_id);
  }
  bool fills_its_seats(const RequestState& request) const;
  bool short_prefill_pending() const;
  void drop_preempted();
  void collect_scheduled();
  StepLoad load_so_far() const;
  void check_adapter_counts() const;

  const SchedulerLimits limits_;
  const int64_t long_threshold_;
  const int64_t seats_of_one_adapter_;
  KvCacheManager& cache_;
  AdapterTurns turns_;
  WaitingQueue waiting_;
  std::vector<RequestState*> running_;    ///< in order of admission
  std::vector<RequestState*> scheduled_;  ///< the current step
  std::vector<RequestState*> passed_;     ///< scratch: waiting requests that lack blocks in this step
  StepBudget budget_;
  StepTimeModel time_model_;
  StepLoad load_;  ///< of the current step
  int64_t step_budget_ = 0;
  int64_t short_waiting_ = 0;
  int64_t memory_epoch_ = 0;        ///< grows when blocks become free, so that a blocked admission is retried only then
  int64_t steps_without_room_ = 0;  ///< without chunking: steps in which the queue's head found no budget
  SchedulerCounters counters_;
};

}  // namespace quire
