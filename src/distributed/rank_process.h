// The started rank's side of RankLauncher: how it finds out that it is one, and joins.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "distributed/rank_transport.h"
#include "distributed/shm/heartbeat.h"
#include "distributed/shm/shared_segment.h"

namespace quire {

/// What the launcher tells a rank through its environment.
struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int segment_fd = -1;
  int parent = 0;  ///< process of rank 0

  /// As "NAME=value".
  std::vector<std::string> variables() const;
  /// Whether a variable's name or "NAME=value" is one of those.
  static bool is_own(std::string_view variable);
};

/// This process's, if a launcher started it. An Error where the variables are there but make no sense.
Result<std::optional<RankEnvironment>> rank_environment();

/// A process's membership in the ranks of one machine, with its heartbeat. Leaves when destroyed.
class RankProcess {
 public:
  /// Enters the ranks. To be called early in main: from then on the process ends with rank 0's, whatever it does.
  static Result<std::unique_ptr<RankProcess>> join(const RankEnvironment& environment);

  int rank() const { return rank_; }
  const std::shared_ptr<SharedSegment>& segment() const { return segment_; }
  std::unique_ptr<RankTransport> transport() const;
  /// Tells all ranks why this one cannot go on ("the folder /models/x does not exist"); the process should then end.
  void fail(std::string_view reason) const;
  /// Says that the process ends now because rank 0 told it to: its end is then no failure.
  void leave() const;

 private:
  RankProcess(std::shared_ptr<SharedSegment> segment, int rank, int parent);

  std::shared_ptr<SharedSegment> segment_;
  int rank_;
  Heartbeat heartbeat_;
};

}  // namespace quire
