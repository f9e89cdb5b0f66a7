// What rank 0 needs of the other ranks, however they run: processes of this machine, or in tests threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "distributed/rank_transport.h"

namespace quire {

/// The other ranks are running: each is in serve_rank().
class RankHost {
 public:
  /// How the ranks share CPUs.
  enum class Sharing : uint8_t {
    kThreads,    ///< ranks are threads of one process: its CPUs are divided, no thread is pinned
    kProcesses,  ///< processes of one machine: its CPUs are divided, and threads are pinned to them
    kOwnCpus,    ///< each process has all of the CPUs that it may run on
  };

  /// Ends what still runs.
  virtual ~RankHost() = default;
  /// Rank 0's; taken once.
  virtual std::unique_ptr<RankTransport> transport() = 0;
  virtual Sharing sharing() const = 0;
  /// Starts the ranks anew, after stop(): transport() then gives another. An Error where that cannot be done from here.
  virtual Status restart() = 0;
  virtual bool can_restart() const = 0;
  /// Why the ranks cannot go on, once one has failed. From any thread.
  virtual std::optional<std::string> failure() const = 0;
  /// Gives the ranks that time to end by themselves; then ends them. None is left afterwards.
  virtual void stop(std::chrono::milliseconds grace) = 0;
};

/// Starts ranks 1, 2, ... as processes of this program, whose main must call run_as_rank().
Result<std::unique_ptr<RankHost>> start_rank_processes(int ranks);

}  // namespace quire
