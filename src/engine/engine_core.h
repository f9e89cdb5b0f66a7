// The engine without its thread: requests in, steps, outputs out. Used by one thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "engine/kv_cache_manager.h"
#include "engine/request_state.h"
#include "engine/scheduler.h"
#include "engine/step_plan.h"

namespace quire {

class EngineCore {
 public:
  /// `ended` is called with a request's id just before its last output is delivered.
  EngineCore(const EngineConfig& config, const EngineLimits& limits, std::unique_ptr<Executor> executor,
             std::function<void(const std::string&)> ended = {});

  /// Takes a request that judge_request() let pass, with an id that no other live request has.
  void add(EngineRequest request, OutputCallback callback, double arrival_time);
  void abort(const std::string& id);

  /// Plans and runs one step and books its results; returns the number of tokens it computed. An executor that fails
  /// costs the requests of that step; where no step could succeed any more it recovers, and what ran is recomputed.
  /// Throws CheckFailure on an internal fault, and when the executor cannot recover: then only end_all() may follow.
  /// Outputs wait for deliver().
  int64_t step();

  /// Where the executor has failed, also while nothing ran: recovers, as step() does. True when it has.
  bool recover_if_failed();

  /// Calls the callbacks of what step(), abort() and end_all() produced.
  void deliver();

  /// Ends every request. Does not touch the scheduler, so that it works after a fault.
  void end_all(FinishReason reason, const std::optional<Error>& error);

  /// For adapters; steps are the core's own.
  Executor& executor() { return *executor_; }
  bool has_requests() const { return scheduler_.has_requests(); }
  bool reset_prefix_cache() { return cache_.reset_prefix_cache(); }
  EngineStats stats() const;
  /// Throws CheckFailure that says what is wrong. Without requests, no block may be in use.
  void check_integrity() const;

 private:
  struct Delivery {
    RequestState* request = nullptr;
    RequestOutput output;
  };

  uint64_t draw_seed();
  bool wait_for_prompt(RequestState& request);
  void follow(RequestState& leader, RequestState& follower);
  void stop_following(RequestState& follower);
  void release_followers(RequestState& request);
  Status run_executor();
  void book_results();
  void fail_step(const Error& error);
  void count_end(FinishReason reason);
  void end_request(RequestState& request, RequestOutput&& output);

  const EngineConfig config_;
  const EngineLimits limits_;
  std::unique_ptr<Executor> executor_;
  std::function<void(const std::string&)> ended_;
  const int64_t max_request_tokens_;
  KvCacheManager cache_;
  Scheduler scheduler_;
  std::unordered_map<std::string, std::unique_ptr<RequestState>> requests_;
  const std::vector<RequestState*>* scheduled_ = nullptr;  ///< of the current step
  StepPlan plan_;
  StepResult result_;
  std::vector<Delivery> deliveries_;
  EngineStats stats_;
  int64_t arrivals_ = 0;
  int64_t followers_waiting_ = 0;  ///< requests that the scheduler does not know yet
  uint64_t seeds_drawn_ = 0;
};

}  // namespace quire
