#include <mutex>
#include <utility>

#include "distributed/rank_launcher.h"
#include "engine/ranks/rank_host.h"

namespace quire {
namespace {

class RankProcesses final : public RankHost {
 public:
  explicit RankProcesses(int ranks) : ranks_(ranks) {}

  std::unique_ptr<RankTransport> transport() override { return launcher_->transport(); }
  Sharing sharing() const override { return Sharing::kProcesses; }

  Status restart() override {
    RankLauncherOptions options;
    options.segment.ranks = ranks_;
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<RankLauncher> launcher, RankLauncher::start(std::move(options)));
    const std::lock_guard lock(mutex_);
    launcher_ = std::move(launcher);
    return {};
  }
  bool can_restart() const override { return true; }

  std::optional<std::string> failure() const override {
    const std::lock_guard lock(mutex_);
    const std::optional<RankFailure> failure = launcher_->failure();
    if (!failure) return std::nullopt;
    return failure->message;
  }
  void stop(std::chrono::milliseconds grace) override { launcher_->stop(grace); }

 private:
  const int ranks_;
  mutable std::mutex mutex_;  ///< held to replace the launcher, and by other threads to use it
  std::unique_ptr<RankLauncher> launcher_;
};

}  // namespace

Result<std::unique_ptr<RankHost>> start_rank_processes(int ranks) {
  auto processes = std::make_unique<RankProcesses>(ranks);
  QUIRE_RETURN_IF_ERROR(processes->restart());
  return std::unique_ptr<RankHost>(std::move(processes));
}

}  // namespace quire
