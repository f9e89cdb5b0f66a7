#include "engine/adapter_turns.h"

#include <algorithm>

#include "base/check.h"

namespace quire {

AdapterTurns::Lane& AdapterTurns::active_lane(uint64_t adapter_id) {
  const auto [entry, added] = lanes_.try_emplace(adapter_id);
  if (added) {
    entry->second.since = step_;
    adapters_ += adapter_id != 0 ? 1 : 0;
  }
  return entry->second;
}

void AdapterTurns::drop_if_empty(uint64_t adapter_id) {
  const auto entry = lanes_.find(adapter_id);
  const Lane& lane = entry->second;
  QUIRE_CHECK(lane.running >= 0 && lane.waiting >= 0);
  if (lane.running > 0 || lane.waiting > 0) return;
  lanes_.erase(entry);
  adapters_ -= adapter_id != 0 ? 1 : 0;
}

void AdapterTurns::count_waiting(uint64_t adapter_id, int64_t change) {
  active_lane(adapter_id).waiting += change;
  if (change < 0) drop_if_empty(adapter_id);
}

void AdapterTurns::count_running(uint64_t adapter_id, int64_t change) {
  active_lane(adapter_id).running += change;
  if (change < 0) drop_if_empty(adapter_id);
}

int64_t AdapterTurns::running(uint64_t adapter_id) const {
  const auto entry = lanes_.find(adapter_id);
  return entry == lanes_.end() ? 0 : entry->second.running;
}

int64_t AdapterTurns::since(uint64_t adapter_id) const { return lanes_.at(adapter_id).since; }

void AdapterTurns::begin_step() {
  ++step_;
  everyone_ = !max_loras_ || adapters_ <= *max_loras_;
  if (everyone_) return;
  for (auto& [id, lane] : lanes_) lane.chosen = lane.offered = false;
  choose(*max_loras_, false);
}

/// Chooses up to `places` more adapters that this step has not offered a place; returns how many.
int64_t AdapterTurns::choose(int64_t places, bool with_running) {
  line_.clear();
  for (const auto& [id, lane] : lanes_) {
    if (id != 0 && !lane.offered && (!with_running || lane.running > 0)) line_.emplace_back(lane.since, id);
  }
  const size_t count = std::min(line_.size(), static_cast<size_t>(std::max<int64_t>(places, 0)));
  std::partial_sort(line_.begin(), line_.begin() + static_cast<std::ptrdiff_t>(count), line_.end());
  for (size_t i = 0; i < count; ++i) {
    Lane& lane = lanes_.at(line_[i].second);
    lane.chosen = lane.offered = true;
  }
  return static_cast<int64_t>(count);
}

bool AdapterTurns::may_run(uint64_t adapter_id) const {
  return everyone_ || adapter_id == 0 || lanes_.at(adapter_id).chosen;
}

bool AdapterTurns::pass_places_on(std::span<RequestState* const> running, bool admissions) {
  if (everyone_) return false;
  for (auto& [id, lane] : lanes_) lane.chosen = false;
  for (const RequestState* request : running) {
    if (request->scheduled > 0) lanes_.at(request->request.adapter_id).chosen = true;
  }
  int64_t places = *max_loras_;
  for (const auto& [id, lane] : lanes_) places -= id != 0 && lane.chosen ? 1 : 0;
  int64_t taken = choose(places, true);
  if (admissions) taken += choose(places - taken, false);
  return taken > 0;
}

void AdapterTurns::end_step(std::span<RequestState* const> scheduled) {
  if (!max_loras_) return;
  for (const RequestState* request : scheduled) lanes_.at(request->request.adapter_id).since = step_;
}

std::vector<AdapterLoad> AdapterTurns::loads() const {
  std::vector<AdapterLoad> loads;
  loads.reserve(static_cast<size_t>(adapters_));
  for (const auto& [id, lane] : lanes_) {
    if (id != 0) loads.push_back({id, lane.running, lane.waiting});
  }
  return loads;
}

}  // namespace quire
