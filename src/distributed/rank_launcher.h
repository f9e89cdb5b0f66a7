// Starts the other ranks of this machine as processes, watches them, and ends them with this process.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "distributed/child_process.h"
#include "distributed/rank_transport.h"
#include "distributed/shm/shared_segment.h"

namespace quire {

enum class RankState {
  kStarting,  ///< has not joined yet
  kAlive,
  kStuck,  ///< its process exists, but gives no sign of life: stopped, or in the hands of the kernel
  kDead,
};

struct RankFailure {
  int rank = 0;
  std::string message;  ///< one sentence
};

struct RankLauncherOptions {
  /// What each rank is started as: this program again, with these arguments after its name.
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments;
  /// "NAME=value", beside this process's own environment.
  std::vector<std::string> environment;
  /// segment.ranks is the size of the world; this process is rank 0.
  SegmentOptions segment;
  /// By when all ranks must have joined.
  std::chrono::milliseconds start_timeout{10000};
  /// How long a rank may give no sign of life.
  std::chrono::milliseconds stuck_after{1500};
  /// Told once, of the first rank that fails, from the launcher's thread.
  std::function<void(const RankFailure&)> on_failure;
};

/// Rank 0's hold on the other ranks. When one dies or gets stuck, all waits of all ranks are broken off with a sentence
/// about it, within two seconds. A failed set of ranks cannot be mended: stop it and start another.
class RankLauncher {
 public:
  /// Starts the ranks and returns when all have joined, or with the sentence why one has not; then none is left.
  static Result<std::unique_ptr<RankLauncher>> start(RankLauncherOptions options);
  /// Kills what still lives.
  ~RankLauncher();
  RankLauncher(const RankLauncher&) = delete;
  RankLauncher& operator=(const RankLauncher&) = delete;

  const std::shared_ptr<SharedSegment>& segment() const { return segment_; }
  /// Rank 0's.
  std::unique_ptr<RankTransport> transport() const;

  /// Of each rank; rank 0, this process, is alive.
  std::vector<RankState> states() const;
  /// Process ids of ranks 1, 2, ...
  std::vector<int> processes() const;
  /// The first failure, once there is one.
  std::optional<RankFailure> failure() const;

  /// Gives the ranks that time to end by themselves, kills those that have not, and returns when none is left.
  void stop(std::chrono::milliseconds grace = std::chrono::milliseconds(0));

 private:
  /// What the launcher knows of one started rank.
  struct Watched {
    ChildProcess process;
    RankState state = RankState::kStarting;
    uint32_t heartbeat = 0;
    std::chrono::milliseconds silent{0};
  };

  RankLauncher(RankLauncherOptions options, std::shared_ptr<SharedSegment> segment);
  Status spawn_all();
  Status wait_until_joined();
  void watch();
  void look_for_ends();
  void look_for_heartbeats(std::chrono::milliseconds passed);
  void fail(int rank, const std::string& message);
  /// True when nothing is left to wait for.
  bool end_ranks(std::chrono::steady_clock::time_point now);
  bool all_dead() const;

  const RankLauncherOptions options_;
  const std::shared_ptr<SharedSegment> segment_;
  mutable std::mutex mutex_;    ///< guards what follows
  std::vector<Watched> ranks_;  ///< 1, 2, ...
  std::optional<RankFailure> failure_;
  std::optional<std::chrono::steady_clock::time_point> kill_at_;  ///< set by stop()
  bool killed_ = false;
  std::optional<Status> spawned_;
  std::thread watcher_;
};

}  // namespace quire
