#include "distributed/mpi/mpi_messages.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace quire {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr auto kPolling = microseconds(200);        // without pause; MPI moves data only while it is asked
constexpr auto kLongestLookPause = microseconds(1000);  // between looks when nothing comes

}  // namespace

std::mutex& mpi_calls() {
  static std::mutex mutex;
  return mutex;
}

std::string mpi_error_text(const quire_mpi_table& mpi, int code) {
  char text[512] = "";
  mpi.describe(code, text, sizeof(text));
  return text;
}

void AbortReason::set(std::string_view reason) {
  if (segment_ != nullptr) segment_->abort(reason);
  const std::lock_guard lock(mutex_);
  if (set_.load()) return;
  text_ = reason;
  set_.store(true, std::memory_order_release);
}

std::string AbortReason::text() const {
  const std::lock_guard lock(mutex_);
  return set_.load() || segment_ == nullptr ? text_ : segment_->abort_reason();
}

MpiMessages::~MpiMessages() {
  if (!pending_.empty()) new std::deque<std::vector<std::byte>>(std::move(memory_));
}

std::byte* MpiMessages::prepare(int64_t bytes) {
  if (used_ == static_cast<int>(memory_.size())) {
    memory_.emplace_back();
    sizes_.push_back(0);
  }
  std::vector<std::byte>& memory = memory_[static_cast<size_t>(used_)];
  const auto needed = static_cast<size_t>(bytes + kHeaderBytes);
  if (memory.size() < needed) memory.resize(needed);
  sizes_[static_cast<size_t>(used_)] = bytes;
  return payload(used_++);
}

Status MpiMessages::send(int message, uint64_t what, int rank) {
  std::vector<std::byte>& memory = memory_[static_cast<size_t>(message)];
  std::memcpy(memory.data(), &what, sizeof(what));
  void* request = nullptr;
  const int bytes = static_cast<int>(sizes_[static_cast<size_t>(message)] + kHeaderBytes);
  const std::lock_guard lock(mpi_calls());
  const int code = mpi_.send(memory.data(), bytes, rank, tag_, &request);
  if (code != 0) return mpi_error("sending to rank " + std::to_string(rank), code);
  pending_.push_back({request, message, rank, false, what});
  return {};
}

Result<int> MpiMessages::receive(int64_t bytes, uint64_t what, int rank) {
  prepare(bytes);
  const int message = index();
  void* request = nullptr;
  const int length = static_cast<int>(bytes + kHeaderBytes);
  const std::lock_guard lock(mpi_calls());
  const int code = mpi_.receive(memory_[static_cast<size_t>(message)].data(), length, rank, tag_, &request);
  if (code != 0) return mpi_error("receiving from rank " + std::to_string(rank), code);
  pending_.push_back({request, message, rank, true, what});
  return message;
}

Status MpiMessages::finish(const std::string& place, const AbortReason& abort,
                           const std::optional<steady_clock::time_point>& deadline,
                           const std::function<std::string(uint64_t)>& describe) {
  const auto begin = steady_clock::now();
  microseconds pause(20);
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const bool done, look(place, describe));
    if (done) return {};
    if (abort.is_set()) return Error{ErrorKind::kUnavailable, place + " was broken off: " + abort.text(), {}};
    const auto now = steady_clock::now();
    if (deadline && now >= *deadline) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - begin).count();
      return Error{ErrorKind::kUnavailable,
                   place + " waited " + std::to_string(waited) + " ms for rank " +
                       std::to_string(pending_.front().rank) + " of the world",
                   {}};
    }
    if (now - begin < kPolling) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min<microseconds>(pause * 2, kLongestLookPause);
    }
  }
}

Result<bool> MpiMessages::look(const std::string& place, const std::function<std::string(uint64_t)>& describe) {
  for (size_t i = 0; i < pending_.size();) {
    Pending& message = pending_[i];
    int done = 0, bytes = 0;
    const std::lock_guard lock(mpi_calls());
    const int code = mpi_.test(&message.request, &done, &bytes);
    if (code != 0) return mpi_error(place + ": the message of rank " + std::to_string(message.rank), code);
    if (done == 0) {
      ++i;
      continue;
    }
    const Pending arrived = message;
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    if (arrived.incoming) QUIRE_RETURN_IF_ERROR(check_arrival(arrived, bytes, place, describe));
  }
  return pending_.empty();
}

Status MpiMessages::check_arrival(const Pending& message, int bytes, const std::string& place,
                                  const std::function<std::string(uint64_t)>& describe) {
  uint64_t what = 0;
  std::memcpy(&what, memory_[static_cast<size_t>(message.message)].data(), sizeof(what));
  const int64_t expected = sizes_[static_cast<size_t>(message.message)] + kHeaderBytes;
  if (what == message.what && bytes == expected) return {};
  return internal_error(place + ": rank " + std::to_string(message.rank) + " of the world does " + describe(what) +
                        " while this rank does " + describe(message.what));
}

void MpiMessages::clear() { used_ = 0; }

Error MpiMessages::mpi_error(const std::string& what, int code) const {
  return {ErrorKind::kUnavailable, what + " failed in MPI: " + mpi_error_text(mpi_, code), {}};
}

}  // namespace quire
