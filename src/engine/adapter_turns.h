// Which adapters the next step may use when their number is capped (--max-loras): those that have waited longest.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/request_state.h"

namespace quire {

/// Requests of one adapter.
struct AdapterLoad {
  uint64_t adapter_id = 0;
  int64_t running = 0, waiting = 0;

  bool operator==(const AdapterLoad&) const = default;
};

/// Counts requests by adapter and hands out the places of a step. An adapter waits for its turn from the step in which
/// it was last computed (or in which its first request came). Of A adapters with requests the longest waiting
/// `max_loras` get the places, so that each is offered one within ceil(A / max_loras) steps, whatever the others send.
/// The base model (id 0) needs no place.
class AdapterTurns {
 public:
  /// No cap: every adapter may run in every step.
  explicit AdapterTurns(std::optional<int64_t> max_loras) : max_loras_(max_loras) {}

  bool capped() const { return max_loras_.has_value(); }
  void count_waiting(uint64_t adapter_id, int64_t change);
  void count_running(uint64_t adapter_id, int64_t change);
  int64_t running(uint64_t adapter_id) const;

  /// Chooses the adapters of a new step.
  void begin_step();
  bool may_run(uint64_t adapter_id) const;
  /// Places of adapters that got no tokens (their requests lack blocks or seats) go to the next in turn: first to
  /// those with running requests, then, if `admissions` are possible, to those that only wait. False when none changed
  /// hands.
  bool pass_places_on(std::span<RequestState* const> running, bool admissions);
  /// The step computes these requests; their adapters go to the end of the line.
  void end_step(std::span<RequestState* const> scheduled);
  /// The adapter's place in the line: less is earlier.
  int64_t since(uint64_t adapter_id) const;

  /// Of every adapter with requests, the base model aside, in no order.
  std::vector<AdapterLoad> loads() const;
  bool has_adapters() const { return adapters_ > 0; }

 private:
  struct Lane {
    int64_t running = 0, waiting = 0;
    int64_t since = 0;  ///< the step in which it was last computed, or became active
    bool chosen = false;
    bool offered = false;  ///< was chosen at some time in this step
  };

  Lane& active_lane(uint64_t adapter_id);
  void drop_if_empty(uint64_t adapter_id);
  int64_t choose(int64_t places, bool with_running);

  const std::optional<int64_t> max_loras_;
  std::unordered_map<uint64_t, Lane> lanes_;  ///< of adapters with requests, and of the base model
  int64_t adapters_ = 0;                      ///< lanes without the base model's
  bool everyone_ = true;                      ///< in this step nobody need wait
  int64_t step_ = 0;
  std::vector<std::pair<int64_t, uint64_t>> line_;  ///< scratch: since, id
};

}  // namespace quire
