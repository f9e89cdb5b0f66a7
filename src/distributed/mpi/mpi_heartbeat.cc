#include "distributed/mpi/mpi_heartbeat.h"

#include <algorithm>
#include <utility>

#include "distributed/mpi/mpi_messages.h"

namespace quire {
namespace {

constexpr unsigned char kAlive = 1;
constexpr unsigned char kLeaves = 2;
// A process that was stopped itself (in a terminal, say) must not count that time as the others' silence.
constexpr auto kLongestPause = 2 * MpiHeartbeat::kInterval;

using std::chrono::milliseconds;
using std::chrono::steady_clock;

}  // namespace

MpiHeartbeat::MpiHeartbeat(const quire_mpi_table& mpi, int rank, int tag, std::vector<std::string> hosts,
                           std::function<void(const std::string&)> on_loss)
    : mpi_(mpi), tag_(tag), hosts_(std::move(hosts)), on_loss_(std::move(on_loss)) {
  for (int other = 0; other < static_cast<int>(hosts_.size()); ++other) {
    if (other != rank && (rank == 0 || other == 0)) peers_.push_back({.rank = other});
  }
  thread_ = std::thread([this] { run(); });
}

MpiHeartbeat::~MpiHeartbeat() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  // MPI may still write to where an unfinished message lies.
  const auto unfinished = [](const Peer& peer) { return peer.sending != nullptr || peer.receiving != nullptr; };
  if (std::ranges::any_of(peers_, unfinished)) new std::vector<Peer>(std::move(peers_));
}

bool MpiHeartbeat::leave() {
  std::unique_lock lock(mutex_);
  leaving_ = true;
  wake_.notify_all();
  return wake_.wait_for(lock, kSilence, [&] { return left_; });
}

void MpiHeartbeat::run() {
  auto last = steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const bool leaving = leaving_;
    lock.unlock();
    const auto now = steady_clock::now();
    const auto passed = std::min(std::chrono::duration_cast<milliseconds>(now - last), milliseconds(kLongestPause));
    last = now;
    const std::optional<std::string> loss = look(passed, leaving);
    if (loss) on_loss_(*loss);
    lock.lock();
    if (loss) return;
    if (leaving && all_gone()) {
      left_ = true;
      wake_.notify_all();
      return;
    }
    wake_.wait_for(lock, leaving ? milliseconds(2) : milliseconds(kInterval),
                   [&] { return stop_ || leaving_ != leaving; });
  }
}

std::optional<std::string> MpiHeartbeat::look(milliseconds passed, bool leaving) {
  const std::lock_guard one_call(mpi_calls());
  for (Peer& peer : peers_) {
    if (auto loss = look_at(peer, passed, leaving)) return loss;
  }
  return std::nullopt;
}

std::optional<std::string> MpiHeartbeat::look_at(Peer& peer, milliseconds passed, bool leaving) {
  const auto failed = [&](int code) {
    return describe(peer) + " cannot be reached any more: " + mpi_error_text(mpi_, code);
  };
  int done = 0, bytes = 0;
  peer.silent += passed;
  if (peer.receiving != nullptr) {
    if (const int code = mpi_.test(&peer.receiving, &done, &bytes); code != 0) return failed(code);
    if (done != 0) {
      peer.silent = milliseconds(0);
      peer.gone = peer.in == kLeaves;
    }
  }
  if (peer.receiving == nullptr && !peer.gone) {
    if (const int code = mpi_.receive(&peer.in, 1, peer.rank, tag_, &peer.receiving); code != 0) return failed(code);
  }
  if (peer.sending != nullptr) {
    if (const int code = mpi_.test(&peer.sending, &done, &bytes); code != 0) return failed(code);
  }
  if (peer.sending == nullptr && !peer.told) {
    peer.told = leaving;
    peer.out = leaving ? kLeaves : kAlive;
    if (const int code = mpi_.send(&peer.out, 1, peer.rank, tag_, &peer.sending); code != 0) return failed(code);
  }
  if (peer.gone || peer.silent < kSilence) return std::nullopt;
  return describe(peer) + " has given no sign of life for " + std::to_string(kSilence.count()) +
         " s: its process hangs, or its machine or the link to it is lost";
}

std::string MpiHeartbeat::describe(const Peer& peer) const {
  return "rank " + std::to_string(peer.rank) + " (host " + hosts_[static_cast<size_t>(peer.rank)] + ")";
}

bool MpiHeartbeat::all_gone() const {
  return std::ranges::all_of(peers_,
                             [](const Peer& peer) { return peer.gone && peer.told && peer.sending == nullptr; });
}

}  // namespace quire
