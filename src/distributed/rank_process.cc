#include "distributed/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "distributed/shm/shm_transport.h"

namespace quire {
namespace {

constexpr const char* kNames[] = {"QUIRE_RANK", "QUIRE_WORLD_SIZE", "QUIRE_RANK_FD", "QUIRE_RANK_PARENT"};

bool parse(const char* text, int& value) {
  const std::string_view view(text);
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  return error == std::errc() && end == view.data() + view.size() && value >= 0;
}

}  // namespace

std::vector<std::string> RankEnvironment::variables() const {
  std::vector<std::string> variables;
  const int values[] = {rank, world_size, segment_fd, parent};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    variables.push_back(std::string(kNames[i]) + "=" + std::to_string(values[i]));
  }
  return variables;
}

bool RankEnvironment::is_own(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  for (const char* const own : kNames) {
    if (name == own) return true;
  }
  return false;
}

Result<std::optional<RankEnvironment>> rank_environment() {
  RankEnvironment environment;
  int* const values[] = {&environment.rank, &environment.world_size, &environment.segment_fd, &environment.parent};
  if (std::getenv(kNames[0]) == nullptr) return std::optional<RankEnvironment>();
  for (size_t i = 0; i < std::size(kNames); ++i) {
    const char* const text = std::getenv(kNames[i]);
    if (text == nullptr || !parse(text, *values[i])) {
      const std::string found = text == nullptr ? std::string("missing") : std::string(text);
      return invalid_argument(std::string(kNames[i]) + " is set by quire for the ranks that it starts, and is " +
                              found + " here: unset QUIRE_RANK to start a server");
    }
  }
  return std::optional<RankEnvironment>(environment);
}

Result<std::unique_ptr<RankProcess>> RankProcess::join(const RankEnvironment& environment) {
  // The signal comes when the parent ends after this call; the check finds the one that ended before.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != environment.parent) {
    return Error{ErrorKind::kUnavailable, "rank 0, which started this rank, has ended", {}};
  }
  fcntl(environment.segment_fd, F_SETFD, FD_CLOEXEC);
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<SharedSegment> segment,
                         SharedSegment::attach(environment.segment_fd, environment.world_size));
  QUIRE_RETURN_IF_ERROR(segment->join(environment.rank));
  return std::unique_ptr<RankProcess>(new RankProcess(std::move(segment), environment.rank, environment.parent));
}

RankProcess::RankProcess(std::shared_ptr<SharedSegment> segment, int rank, int parent)
    : segment_(std::move(segment)), rank_(rank), heartbeat_(segment_, rank, parent) {}

std::unique_ptr<RankTransport> RankProcess::transport() const {
  return std::make_unique<ShmTransport>(segment_, rank_);
}

void RankProcess::fail(std::string_view reason) const {
  std::string message = "rank " + std::to_string(rank_) + ": ";
  message += reason;
  segment_->abort(message);
}

void RankProcess::leave() const { segment_->rank_line(rank_).left.store(1, std::memory_order_release); }

}  // namespace quire
