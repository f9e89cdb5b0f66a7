// Requests that wait for admission, in the order in which they are to be tried.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>

#include "engine/engine_config.h"
#include "engine/request_state.h"

namespace quire {

/// FCFS: preempted requests first, then by arrival. Priority: by priority, then the same. Insertion and removal are
/// O(log n).
class WaitingQueue {
 public:
  explicit WaitingQueue(SchedulingPolicy policy) : requests_(Before{policy == SchedulingPolicy::kPriority}) {}

  void push(RequestState* request) { requests_.insert(request); }
  void remove(RequestState* request) { requests_.erase(request); }
  bool empty() const { return requests_.empty(); }
  int64_t size() const { return static_cast<int64_t>(requests_.size()); }
  auto begin() const { return requests_.begin(); }
  auto end() const { return requests_.end(); }

 private:
  struct Before {
    bool by_priority;
    /// Nothing in the key changes while a request waits.
    auto key(const RequestState& request) const {
      return std::make_tuple(by_priority ? request.request.priority : 0, request.usage.preemptions == 0,
                             request.arrival);
    }
    bool operator()(const RequestState* a, const RequestState* b) const { return key(*a) < key(*b); }
  };
  std::set<RequestState*, Before> requests_;
};

}  // namespace quire
