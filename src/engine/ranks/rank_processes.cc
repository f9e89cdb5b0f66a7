#include <utility>

#include "distributed/rank_launcher.h"
#include "engine/ranks/rank_host.h"

namespace quire {
namespace {

class RankProcesses final : public RankHost {
 public:
  explicit RankProcesses(std::unique_ptr<RankLauncher> launcher) : launcher_(std::move(launcher)) {}

  std::unique_ptr<RankTransport> transport() override { return launcher_->transport(); }
  Sharing sharing() const override { return Sharing::kProcesses; }
  std::optional<std::string> failure() const override {
    const std::optional<RankFailure> failure = launcher_->failure();
    if (!failure) return std::nullopt;
    return failure->message;
  }
  void stop(std::chrono::milliseconds grace) override { launcher_->stop(grace); }

 private:
  std::unique_ptr<RankLauncher> launcher_;
};

}  // namespace

Result<std::unique_ptr<RankHost>> start_rank_processes(int ranks) {
  RankLauncherOptions options;
  options.segment.ranks = ranks;
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<RankLauncher> launcher, RankLauncher::start(std::move(options)));
  return std::unique_ptr<RankHost>(std::make_unique<RankProcesses>(std::move(launcher)));
}

}  // namespace quire
