#include "distributed/rank_launcher.h"

#include <poll.h>
#include <unistd.h>

#include <utility>

#include "distributed/rank_process.h"
#include "distributed/shm/heartbeat.h"
#include "distributed/shm/shm_transport.h"

namespace quire {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kLauncherTick = milliseconds(20);               // how often the launcher looks
constexpr auto kLongestEnd = std::chrono::seconds(5);  // for a killed process to be gone

std::string describe(int rank, int pid) {
  return "rank " + std::to_string(rank) + " (process " + std::to_string(pid) + ")";
}

/// The time since `last`, which becomes now. Where this process was held up itself (the machine was suspended, or all
/// was stopped and goes on), the gap must not count as time that the ranks had: at most a few ticks of it do.
milliseconds since(steady_clock::time_point& last) {
  const auto passed = duration_cast<milliseconds>(steady_clock::now() - last);
  last += passed;  // what is less than a millisecond counts next time
  return std::min(passed, 4 * kLauncherTick);
}

}  // namespace

Result<std::unique_ptr<RankLauncher>> RankLauncher::start(RankLauncherOptions options) {
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<SharedSegment> segment, SharedSegment::create(options.segment));
  QUIRE_RETURN_IF_ERROR(segment->join(0));
  std::unique_ptr<RankLauncher> launcher(new RankLauncher(std::move(options), std::move(segment)));
  QUIRE_RETURN_IF_ERROR(launcher->wait_until_joined());
  return launcher;
}

// The ranks are started by the thread that watches them: the kernel ends them with the thread that started them, so it
// must be one that lives as long as they shall.
RankLauncher::RankLauncher(RankLauncherOptions options, std::shared_ptr<SharedSegment> segment)
    : options_(std::move(options)), segment_(std::move(segment)), watcher_([this] { watch(); }) {}

RankLauncher::~RankLauncher() { stop(); }

std::unique_ptr<RankTransport> RankLauncher::transport() const { return std::make_unique<ShmTransport>(segment_, 0); }

Status RankLauncher::spawn_all() {
  std::vector<std::string> inherited_environment = options_.environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!RankEnvironment::is_own(*variable)) inherited_environment.emplace_back(*variable);
  }
  for (int rank = 1; rank < segment_->ranks(); ++rank) {
    const RankEnvironment own = {rank, segment_->ranks(), segment_->fd(), static_cast<int>(getpid())};
    std::vector<std::string> environment = own.variables();
    environment.insert(environment.end(), inherited_environment.begin(), inherited_environment.end());
    QUIRE_ASSIGN_OR_RETURN(ChildProcess process,
                           ChildProcess::spawn(options_.program, options_.arguments, environment, {segment_->fd()}));
    ranks_.push_back({std::move(process)});
  }
  return {};
}

Status RankLauncher::wait_until_joined() {
  milliseconds waited(0);
  auto last = steady_clock::now();
  while (true) {
    waited += since(last);
    {
      const std::lock_guard lock(mutex_);
      if (spawned_ && !spawned_->ok()) return spawned_->error();
      if (failure_) return Error{ErrorKind::kUnavailable, failure_->message, {}};
      bool all = spawned_.has_value();
      const Watched* missing = nullptr;
      int missing_rank = 0;
      for (size_t i = 0; i < ranks_.size(); ++i) {
        if (ranks_[i].state != RankState::kStarting) continue;
        all = false;
        missing = &ranks_[i];
        missing_rank = static_cast<int>(i) + 1;
      }
      if (all) return {};
      if (waited > options_.start_timeout && missing != nullptr) {
        return Error{ErrorKind::kUnavailable,
                     describe(missing_rank, missing->process.pid()) + " has not joined within " +
                         std::to_string(options_.start_timeout.count()) + " ms",
                     {}};
      }
    }
    std::this_thread::sleep_for(kLauncherTick / 4);
  }
}

void RankLauncher::watch() {
  {
    const std::lock_guard lock(mutex_);
    spawned_ = spawn_all();
  }
  auto last = steady_clock::now();
  while (true) {
    std::vector<pollfd> ends;
    {
      const std::lock_guard lock(mutex_);
      for (const Watched& rank : ranks_) {
        if (rank.state != RankState::kDead) ends.push_back({rank.process.descriptor(), POLLIN, 0});
      }
    }
    poll(ends.data(), ends.size(), static_cast<int>(kLauncherTick.count()));
    const std::lock_guard lock(mutex_);
    const auto now = steady_clock::now();
    look_for_ends();
    look_for_heartbeats(since(last));
    if (kill_at_ && end_ranks(now)) return;
  }
}

void RankLauncher::look_for_ends() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Watched& rank = ranks_[i];
    if (rank.state == RankState::kDead) continue;
    const std::optional<std::string> how = rank.process.try_wait();
    if (!how) continue;
    const bool joined = rank.state != RankState::kStarting;
    rank.state = RankState::kDead;
    const bool told_to = segment_->rank_line(static_cast<int>(i) + 1).left.load(std::memory_order_acquire) != 0;
    if (kill_at_ || told_to) continue;
    // What the rank said itself, if it did, explains more than how it ended.
    const std::string own_words = segment_->abort_reason();
    std::string message = describe(static_cast<int>(i) + 1, rank.process.pid()) + " " + *how;
    if (!joined) message += " before it joined";
    fail(static_cast<int>(i) + 1, own_words.empty() ? message : own_words);
  }
}

void RankLauncher::look_for_heartbeats(milliseconds passed) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Watched& rank = ranks_[i];
    const int number = static_cast<int>(i) + 1;
    const uint32_t heartbeat = segment_->rank_line(number).heartbeat.load(std::memory_order_relaxed);
    if (heartbeat != rank.heartbeat) {
      rank.heartbeat = heartbeat;
      rank.silent = milliseconds(0);
      if (rank.state == RankState::kStarting || rank.state == RankState::kStuck) rank.state = RankState::kAlive;
      continue;
    }
    if (rank.state != RankState::kAlive) continue;
    rank.silent += passed;
    if (rank.silent < options_.stuck_after) continue;
    rank.state = RankState::kStuck;
    if (!kill_at_) {
      fail(number, describe(number, rank.process.pid()) + " has given no sign of life for " +
                       std::to_string(options_.stuck_after.count()) + " ms: it is stopped");
    }
  }
}

void RankLauncher::fail(int rank, const std::string& message) {
  segment_->abort(message);
  if (failure_) return;
  failure_ = RankFailure{rank, message};
  if (options_.on_failure) options_.on_failure(*failure_);
}

bool RankLauncher::all_dead() const {
  for (const Watched& rank : ranks_) {
    if (rank.state != RankState::kDead) return false;
  }
  return true;
}

bool RankLauncher::end_ranks(steady_clock::time_point now) {
  if (all_dead()) return true;
  if (now < *kill_at_) return false;
  if (!killed_) {
    for (const Watched& rank : ranks_) {
      if (rank.state != RankState::kDead) rank.process.kill();
    }
    killed_ = true;
  }
  return now > *kill_at_ + kLongestEnd;  // one that the kernel cannot end now ends when it can
}

void RankLauncher::stop(milliseconds grace) {
  if (!watcher_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    kill_at_ = steady_clock::now() + grace;
  }
  watcher_.join();
}

std::vector<RankState> RankLauncher::states() const {
  const std::lock_guard lock(mutex_);
  std::vector<RankState> states = {RankState::kAlive};
  for (const Watched& rank : ranks_) states.push_back(rank.state);
  return states;
}

std::vector<int> RankLauncher::processes() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> processes;
  for (const Watched& rank : ranks_) processes.push_back(rank.process.pid());
  return processes;
}

std::optional<RankFailure> RankLauncher::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace quire
