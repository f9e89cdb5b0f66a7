// The engine: one thread that owns the scheduler, the cache's books and the executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/adapter_turns.h"
#include "engine/engine_config.h"
#include "engine/executor.h"
#include "engine/request.h"

namespace quire {

/// Limits that the engine settled on, fixed after start.
struct EngineLimits {
  int64_t max_model_len = 0;
  int64_t block_size = 0;
  int64_t num_blocks = 0;                 ///< of the first group
  std::vector<int64_t> blocks_per_group;  ///< empty: num_blocks for each group
  int64_t kv_cache_tokens = 0;            ///< tokens that fit in the cache: those of its smallest group
  int64_t max_num_batched_tokens = 0;  ///< of the largest step
  std::optional<double> target_itl_seconds;  ///< of steps with decodes, where the budget tunes itself; none: fixed
  int64_t max_num_seqs = 0;
  int64_t max_logprobs = 0;  ///< -1: no cap
  int64_t vocab_size = 0;
};

/// A snapshot for logs, metrics and `bench`. Counters never fall.
struct EngineStats {
  int64_t running = 0, waiting = 0;
  double kv_cache_usage = 0;  ///< 0..1
  int64_t prompt_tokens = 0, prompt_tokens_cached = 0, generation_tokens = 0;
  int64_t prefix_cache_queries = 0, prefix_cache_hits = 0;  ///< tokens
  int64_t preemptions = 0;
  int64_t finished_stop = 0, finished_length = 0, finished_abort = 0, finished_error = 0, finished_repetition = 0;
  int64_t steps = 0;
  int64_t step_token_budget = 0;  ///< tokens that the last step could have taken
  std::vector<AdapterLoad> adapters;                                     ///< of those with requests, in no order
  double schedule_seconds = 0, execute_seconds = 0, update_seconds = 0;  ///< engine thread's time by part
};

/// Called on the engine thread after each step, with the number of tokens it computed; for histograms.
using StepObserver = std::function<void(int64_t tokens)>;

/// Thread-safe. Requests are queued by any thread; callbacks come from the engine thread.
class Engine {
 public:
  /// Limits must be settled (see settle_limits); starts the thread.
  Engine(const EngineConfig& config, const EngineLimits& limits, std::unique_ptr<Executor> executor);
  ~Engine();  ///< stops the thread; what still runs ends with kAbort
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const EngineLimits& limits() const;

  /// Judges the request against the limits (empty prompt, ids beyond the vocabulary, prompt + 1 beyond max_model_len,
  /// more blocks than the cache has, salts) and queues it. An Error means that it was not queued and the callback will
  /// not be called.
  Status submit(EngineRequest request, OutputCallback callback);

  /// Ends a request, queued or running, with kAbort (one last callback). Unknown ids are ignored.
  void abort(const std::string& id);

  /// Executor's, from any thread while this lives: steps go on meanwhile. An id must not be removed before the last
  /// request with it has ended (EngineRequest::adapter says when).
  Result<AdapterSummary> load_adapter(uint64_t adapter_id, const AdapterFiles& files);
  void remove_adapter(uint64_t adapter_id);

  /// Drops all cached pages that no request uses. False when some are in use and remain.
  bool reset_prefix_cache();

  EngineStats stats() const;
  /// Executor's, asked between two steps.
  std::vector<RankTimes> rank_times();
  void set_step_observer(StepObserver observer);

  /// False once the engine thread has died of an internal fault, or of an executor that could not recover.
  bool healthy() const;
  /// Why it has died; nothing while healthy().
  std::string fault() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Settles max_model_len, budgets and sequence limits from the flags, the model's context and the number of blocks that
/// the cache has; refuses contradictions with one sentence each (no chunked prefill and max_num_batched_tokens <
/// max_model_len; budget < max_num_seqs; threshold > max_model_len; ...).
Result<EngineLimits> settle_limits(const EngineConfig& config, int64_t model_context, int64_t vocab_size,
                                   const std::vector<int64_t>& blocks_per_group,
                                   const std::vector<KvCacheGroup>& groups);

}  // namespace quire
