// Rates from counters.
#include "server/stats_log.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace quire {

std::optional<std::string> stats_line(const EngineStats& before, const EngineStats& after, double seconds) {
  const int64_t prompt = after.prompt_tokens - before.prompt_tokens;
  const int64_t generated = after.generation_tokens - before.generation_tokens;
  if (prompt == 0 && generated == 0 && after.running == 0 && after.waiting == 0) return std::nullopt;
  const double hit_rate = after.prefix_cache_queries == 0 ? 0.0
                                                          : 100.0 * static_cast<double>(after.prefix_cache_hits) /
                                                                static_cast<double>(after.prefix_cache_queries);
  const int64_t preemptions = after.preemptions - before.preemptions;
  return fmt::format(
      "Engine 000: Avg prompt throughput: {:.1f} tokens/s, Avg generation throughput: {:.1f} tokens/s, Running: {} "
      "reqs, "
      "Waiting: {} reqs{}, KV cache usage: {:.1f}%, Prefix cache hit rate: {:.1f}%, "
      "Step budget: {} tokens",
      static_cast<double>(prompt) / seconds, static_cast<double>(generated) / seconds, after.running, after.waiting,
      preemptions > 0 ? fmt::format(", Preemptions: {}", preemptions) : "", 100.0 * after.kv_cache_usage, hit_rate,
      after.step_token_budget);
}

StatsLog::StatsLog(std::function<EngineStats()> stats, std::chrono::milliseconds interval)
    : stats_(std::move(stats)), interval_(interval), thread_([this] { run(); }) {}

StatsLog::~StatsLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_signal_.notify_all();
  thread_.join();
}

void StatsLog::run() {
  EngineStats before = stats_();
  auto since = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stop_signal_.wait_for(lock, interval_, [this] { return stopping_; })) {
    const EngineStats after = stats_();
    const auto now = std::chrono::steady_clock::now();
    if (const auto line = stats_line(before, after, std::chrono::duration<double>(now - since).count()))
      spdlog::info(*line);
    before = after;
    since = now;
  }
}

}  // namespace quire
