// What rank 0 needs of the other ranks, however they run: processes of this machine, or in tests threads.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "distributed/rank_transport.h"

namespace quire {

/// The other ranks are running: each is in serve_rank().
class RankHost {
 public:
  /// Ends what still runs.
  virtual ~RankHost() = default;
  /// Rank 0's; taken once.
  virtual std::unique_ptr<RankTransport> transport() = 0;
  /// Whether each rank is a process, which may pin its threads to CPUs of its own.
  virtual bool has_processes() const = 0;
  /// Why the ranks cannot go on, once one has failed. From any thread.
  virtual std::optional<std::string> failure() const = 0;
  /// Gives the ranks that time to end by themselves; then ends them. None is left afterwards.
  virtual void stop(std::chrono::milliseconds grace) = 0;
};

/// Starts ranks 1, 2, ... as processes of this program, whose main must call run_as_rank().
Result<std::unique_ptr<RankHost>> start_rank_processes(int ranks);

}  // namespace quire
