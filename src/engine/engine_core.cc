#include "engine/engine_core.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "engine/admission.h"
#include "engine/steady_seconds.h"
#include "engine/step_builder.h"

namespace quire {
namespace {

SchedulerLimits scheduler_limits(const EngineConfig& config, const EngineLimits& limits) {
  return {limits.max_num_batched_tokens, limits.max_num_seqs,      config.long_prefill_token_threshold,
          config.enable_chunked_prefill, config.scheduling_policy, config.lora.max_loras,
          limits.target_itl_seconds};
}

/// Finalizer of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::string cache_extra(const EngineRequest& request) {
  std::string extra(reinterpret_cast<const char*>(&request.adapter_id), sizeof(request.adapter_id));
  return extra + request.cache_salt;
}

}  // namespace

EngineCore::EngineCore(const EngineConfig& config, const EngineLimits& limits, std::unique_ptr<Executor> executor,
                       std::function<void(const std::string&)> ended)
    : config_(config),
      limits_(with_blocks_per_group(limits, executor->kv_cache_groups())),
      executor_(std::move(executor)),
      ended_(std::move(ended)),
      max_request_tokens_(max_request_tokens(limits_, executor_->kv_cache_groups())),
      cache_(executor_->kv_cache_groups(), limits_.blocks_per_group, limits_.block_size, config.enable_prefix_caching),
      scheduler_(scheduler_limits(config, limits_), cache_) {}

/// The n-th request without a seed gets the n-th draw of a counter-based generator keyed by --seed: the same server
/// settings and the same order of requests give the same seeds.
uint64_t EngineCore::draw_seed() {
  constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15u;
  ++seeds_drawn_;
  return mix(mix(static_cast<uint64_t>(config_.seed) + kGoldenRatio) + seeds_drawn_ * kGoldenRatio);
}

void EngineCore::add(EngineRequest request, OutputCallback callback, double arrival_time) {
  auto state = std::make_unique<RequestState>();
  state->prompt_tokens = static_cast<int64_t>(request.prompt.size());
  state->tokens = std::move(request.prompt);
  const int64_t seed = request.sampling.seed.value_or(-1);
  state->seed = seed == -1 ? draw_seed() : static_cast<uint64_t>(seed);
  for (std::optional<int64_t>* count : {&request.sampling.logprobs, &request.sampling.prompt_logprobs}) {
    if (*count == -1) *count = limits_.vocab_size;
  }
  const int64_t left = max_request_tokens_ - state->prompt_tokens;
  state->max_total_tokens = state->prompt_tokens + std::min(request.sampling.max_tokens.value_or(left), left);
  state->cache_extra = cache_extra(request);
  state->usage.prompt_tokens = state->prompt_tokens;
  state->usage.arrival_time = arrival_time;
  state->arrival = arrivals_++;
  state->callback = std::move(callback);
  state->request = std::move(request);
  state->logprobs_mode = state->request.logprobs_mode.value_or(config_.logprobs_mode);
  state->edits = LogitEdits::create(state->request.sampling, state->tokens, state->request.eos_token_ids,
                                    state->request.bad_words);
  const auto [entry, added] = requests_.emplace(state->request.id, std::move(state));
  QUIRE_CHECK(added);
  RequestState& added_state = *entry->second;
  if (!wait_for_prompt(added_state)) scheduler_.add(&added_state);
}

/// True where the request is to wait for the pages of another one's prompt, which is not computed yet.
bool EngineCore::wait_for_prompt(RequestState& request) {
  if (request.request.shares_prompt_with.empty()) return false;
  const auto leader = requests_.find(request.request.shares_prompt_with);
  if (leader == requests_.end() || leader->second->ended || leader->second->output_tokens() > 0) return false;
  follow(*leader->second, request);
  return true;
}

void EngineCore::follow(RequestState& leader, RequestState& follower) {
  leader.followers.push_back(&follower);
  follower.leader = &leader;
  ++followers_waiting_;
}

void EngineCore::stop_following(RequestState& follower) {
  if (follower.leader == nullptr) return;
  std::erase(std::exchange(follower.leader, nullptr)->followers, &follower);
  --followers_waiting_;
}

/// Its prompt is computed, or never will be: the first of those who waited goes on, and in the latter case the others
/// wait for that one.
void EngineCore::release_followers(RequestState& request) {
  const std::vector<RequestState*> followers = request.followers;
  for (RequestState* follower : followers) {
    stop_following(*follower);
    if (request.output_tokens() > 0 || follower == followers.front()) {
      scheduler_.add(follower);
    } else {
      follow(*followers.front(), *follower);
    }
  }
}

void EngineCore::abort(const std::string& id) {
  const auto entry = requests_.find(id);
  if (entry == requests_.end() || entry->second->ended) return;
  end_request(*entry->second, final_output(*entry->second, FinishReason::kAbort));
}

int64_t EngineCore::step() {
  const double begin = steady_seconds();
  scheduled_ = &scheduler_.schedule();
  if (scheduled_->empty()) return 0;
  build_plan(*scheduled_, plan_);
  const double planned = steady_seconds();
  const Status status = run_executor();
  const double executed = steady_seconds();
  if (status.ok()) {
    book_results();
    scheduler_.observe_step_time(steady_seconds() - begin);
  } else {
    // A rank that is lost costs no request; a fault of the computation would only come again.
    const std::optional<Error> failure = executor_->failure();
    const bool lost = failure && failure->kind != ErrorKind::kInternal;
    if (!lost) fail_step(status.error());
    if (recover_if_failed()) return 0;
  }
  if (config_.check_integrity_every_step) check_integrity();
  ++stats_.steps;
  stats_.schedule_seconds += planned - begin;
  stats_.execute_seconds += executed - planned;
  stats_.update_seconds += steady_seconds() - executed;
  return plan_.total_tokens;
}

/// The executor's failures of any kind, as an Error.
Status EngineCore::run_executor() {
  result_.sequences.clear();
  try {
    QUIRE_RETURN_IF_ERROR(executor_->execute(plan_, result_));
  } catch (const std::exception& failure) {
    return internal_error(std::string("The step failed: ") + failure.what());
  } catch (...) {
    return internal_error("The step failed for an unknown reason.");
  }
  if (result_.sequences.size() != plan_.sequences.size()) {
    return internal_error("The executor returned results for a different number of sequences.");
  }
  for (size_t i = 0; i < plan_.sequences.size(); ++i) {
    const SequenceResult& result = result_.sequences[i];
    const int32_t token = result.token.token;
    if (plan_.sequences[i].sample && (token < 0 || token >= limits_.vocab_size)) {
      return internal_error("The executor returned a token outside the vocabulary.");
    }
    if (result.prompt_logprobs.size() != plan_.sequences[i].next_prompt_tokens.size()) {
      return internal_error("The executor returned prompt logprobs for a different number of tokens.");
    }
  }
  return {};
}

void EngineCore::book_results() {
  for (size_t i = 0; i < scheduled_->size(); ++i) {
    RequestState& request = *(*scheduled_)[i];
    const bool sampled = plan_.sequences[i].sample;
    scheduler_.mark_computed(request);
    RequestOutput output = apply_result(request, std::move(result_.sequences[i]), sampled);
    if (!sampled) continue;
    ++stats_.generation_tokens;
    release_followers(request);
    if (output.finished()) {
      end_request(request, std::move(output));
    } else {
      deliveries_.push_back({&request, std::move(output)});
    }
  }
}

void EngineCore::fail_step(const Error& error) {
  spdlog::error("A step with {} requests failed; they end, the engine goes on. {}", scheduled_->size(), error.message);
  for (RequestState* request : *scheduled_) {
    end_request(*request, final_output(*request, FinishReason::kError, error));
  }
}

bool EngineCore::recover_if_failed() {
  const std::optional<Error> failure = executor_->failure();
  if (!failure) return false;
  spdlog::error("{}", failure->message);
  const double begin = steady_seconds();
  const int64_t requests = scheduler_.running_count();
  if (const Status status = executor_->recover(); !status.ok()) throw CheckFailure(status.error().message);
  scheduler_.start_over();
  spdlog::info("Started again after {:.2f} s; {} requests are recomputed", steady_seconds() - begin, requests);
  return true;
}

void EngineCore::count_end(FinishReason reason) {
  stats_.finished_stop += reason == FinishReason::kStop;
  stats_.finished_length += reason == FinishReason::kLength;
  stats_.finished_abort += reason == FinishReason::kAbort;
  stats_.finished_error += reason == FinishReason::kError;
  stats_.finished_repetition += reason == FinishReason::kRepetition;
}

void EngineCore::end_request(RequestState& request, RequestOutput&& output) {
  scheduler_.remove(&request);
  request.ended = true;
  stop_following(request);
  release_followers(request);
  count_end(output.finish_reason);
  deliveries_.push_back({&request, std::move(output)});
}

void EngineCore::deliver() {
  for (Delivery& delivery : deliveries_) {
    const bool finished = delivery.output.finished();
    OutputCallback last;
    if (finished) {
      // The id is free again before the last output goes out: its receiver may submit the next request under it.
      last = std::move(delivery.request->callback);
      if (ended_) ended_(delivery.request->request.id);
      requests_.erase(delivery.output.id);
    }
    const OutputCallback& callback = finished ? last : delivery.request->callback;
    try {
      if (callback) callback(std::move(delivery.output));
    } catch (const std::exception& failure) {
      spdlog::error("An output callback threw: {}", failure.what());
    }
  }
  deliveries_.clear();
}

void EngineCore::end_all(FinishReason reason, const std::optional<Error>& error) {
  for (const auto& [id, request] : requests_) {
    if (std::exchange(request->ended, true)) continue;
    count_end(reason);
    deliveries_.push_back({request.get(), final_output(*request, reason, error)});
  }
}

EngineStats EngineCore::stats() const {
  EngineStats stats = stats_;
  const SchedulerCounters& counters = scheduler_.counters();
  stats.running = scheduler_.running_count();
  stats.waiting = scheduler_.waiting_count() + followers_waiting_;
  stats.kv_cache_usage = cache_.usage();
  stats.prompt_tokens = counters.prompt_tokens;
  stats.prompt_tokens_cached = counters.prompt_tokens_cached;
  stats.prefix_cache_queries = counters.prefix_cache_queries;
  stats.prefix_cache_hits = counters.prefix_cache_hits;
  stats.preemptions = counters.preemptions;
  stats.step_token_budget = scheduler_.step_budget();
  if (scheduler_.adapters().has_adapters()) stats.adapters = scheduler_.adapters().loads();
  return stats;
}

void EngineCore::check_integrity() const {
  scheduler_.check_integrity();
  if (!scheduler_.has_requests() && cache_.usage() > 0)
    throw CheckFailure("KV cache: blocks are in use without a request");
}

}  // namespace quire
