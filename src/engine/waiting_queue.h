// Requests that wait for admission, in the order in which they are to be tried.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "engine/adapter_turns.h"
#include "engine/engine_config.h"
#include "engine/request_state.h"

namespace quire {

/// FCFS: preempted requests first, then by arrival. Priority: by priority, then the same. Insertion and removal are
/// O(log n). With `by_adapter` each adapter has a lane of its own, ordered like that, and a walk takes from the lanes
/// in turn: a burst on one of them is behind the others' first requests.
class WaitingQueue {
  struct Before {
    bool by_priority;
    /// Nothing in the key changes while a request waits.
    auto key(const RequestState& request) const {
      return std::make_tuple(by_priority ? request.request.priority : 0, request.usage.preemptions == 0,
                             request.arrival);
    }
    bool operator()(const RequestState* a, const RequestState* b) const { return key(*a) < key(*b); }
  };
  using Lane = std::set<RequestState*, Before>;

 public:
  WaitingQueue(SchedulingPolicy policy, bool by_adapter)
      : before_{policy == SchedulingPolicy::kPriority}, by_adapter_(by_adapter) {}

  void push(RequestState* request) {
    lanes_.try_emplace(lane_of(*request), before_).first->second.insert(request);
    ++size_;
  }
  void remove(RequestState* request) {
    const auto lane = lanes_.find(lane_of(*request));
    if (lane == lanes_.end() || lane->second.erase(request) == 0) return;
    --size_;
    if (lane->second.empty()) lanes_.erase(lane);
  }
  bool empty() const { return size_ == 0; }
  int64_t size() const { return size_; }

  /// Goes through the requests whose adapters may run in this step. The request it gave last may be removed from the
  /// queue; no other change is allowed while it walks.
  class Walk {
    struct Cursor {
      Lane::const_iterator at, end;
      int64_t since = 0;
      int64_t given = 0;
    };
    /// What the policy puts first; then in turn, beginning with the lane that has waited longest.
    auto key(const Cursor& cursor) const {
      const auto [priority, fresh, arrival] = before_.key(**cursor.at);
      return std::make_tuple(priority, fresh, cursor.given, cursor.since, arrival);
    }

   public:
    Walk(const WaitingQueue& queue, const AdapterTurns& turns) : before_(queue.before_) {
      for (const auto& [id, lane] : queue.lanes_) {
        if (!queue.by_adapter_ || turns.may_run(id)) {
          cursors_.push_back({lane.begin(), lane.end(), queue.by_adapter_ ? turns.since(id) : 0});
        }
      }
    }
    /// The next request, or nullptr at the end.
    RequestState* next() {
      current_ = nullptr;
      for (Cursor& cursor : cursors_) {
        if (cursor.at != cursor.end && (current_ == nullptr || key(cursor) < key(*current_))) current_ = &cursor;
      }
      if (current_ == nullptr) return nullptr;
      ++current_->given;
      return *current_->at++;
    }
    /// No more from the lane of the request that next() gave last.
    void leave_lane() { current_->at = current_->end; }

   private:
    Before before_;
    std::vector<Cursor> cursors_;
    Cursor* current_ = nullptr;
  };

  /// Calls `visit` with every request, in no order.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [id, lane] : lanes_) {
      for (const RequestState* request : lane) visit(*request);
    }
  }

 private:
  uint64_t lane_of(const RequestState& request) const { return by_adapter_ ? request.request.adapter_id : 0; }

  const Before before_;
  const bool by_adapter_;
  std::map<uint64_t, Lane> lanes_;  ///< none is empty
  int64_t size_ = 0;
};

}  // namespace quire
