#include "cli/bench/engine_profile.h"

#include <fmt/format.h>

namespace quire::cli {
namespace {

std::string thread_shares(const EngineStats& before, const EngineStats& after) {
  const double schedule = after.schedule_seconds - before.schedule_seconds;
  const double execute = after.execute_seconds - before.execute_seconds;
  const double update = after.update_seconds - before.update_seconds;
  const double sum = schedule + execute + update;
  if (sum <= 0) return {};
  return fmt::format(
      "Engine thread: {:.1f}% computing, {:.1f}% scheduling, {:.1f}% updating, {} steps, {} preemptions\n",
      100 * execute / sum, 100 * schedule / sum, 100 * update / sum, after.steps - before.steps,
      after.preemptions - before.preemptions);
}

std::string rank_shares(const std::vector<RankTimes>& before, const std::vector<RankTimes>& after) {
  std::string lines;
  double collectives = 0;
  double waiting = 0;
  for (size_t rank = 0; rank < after.size() && before.size() == after.size(); ++rank) {
    const double steps = after[rank].steps - before[rank].steps;
    if (steps <= 0) return {};
    const double wait = (after[rank].waiting - before[rank].waiting) / steps;
    const double moving = (after[rank].collectives - before[rank].collectives) / steps - wait;
    lines += fmt::format(
        "Rank {}: {:.1f}% computing, {:.1f}% in collectives ({} operations), {:.1f}% waiting for other ranks\n", rank,
        100 * (1 - moving - wait), 100 * moving, after[rank].operations - before[rank].operations, 100 * wait);
    collectives += moving / static_cast<double>(after.size());
    waiting += wait / static_cast<double>(after.size());
  }
  if (lines.empty()) return {};
  return lines + fmt::format("All ranks: {:.1f}% collectives, {:.1f}% imbalance\n", 100 * collectives, 100 * waiting);
}

}  // namespace

EngineProfile::EngineProfile(Engine& engine, bool with_ranks)
    : engine_(engine), with_ranks_(with_ranks), stats_(engine.stats()) {
  if (with_ranks_) ranks_ = engine_.rank_times();
}

std::string EngineProfile::report() const {
  std::string lines = thread_shares(stats_, engine_.stats());
  if (with_ranks_) lines += rank_shares(ranks_, engine_.rank_times());
  return lines;
}

}  // namespace quire::cli
