// Messages between ranks over MPI whose waits can be broken off: memory that outlives an interrupted transfer, and a
// loop that looks for arrivals, aborts and the deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "distributed/mpi/mpi_module.h"
#include "distributed/shm/shared_segment.h"

namespace quire {

/// MPI takes one call at a time of a process; whoever calls it holds this.
std::mutex& mpi_calls();

/// MPI's words for an error code.
std::string mpi_error_text(const quire_mpi_table& mpi, int code);

/// The reason why this rank's waits shall end, set from any thread; shared with the other ranks of the machine once
/// share() has been called.
class AbortReason {
 public:
  void share(std::shared_ptr<SharedSegment> segment) { segment_ = std::move(segment); }
  void set(std::string_view reason);
  bool is_set() const { return set_.load(std::memory_order_acquire) || (segment_ != nullptr && segment_->aborted()); }
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<SharedSegment> segment_;
  std::atomic<bool> set_{false};
  std::string text_;
};

/// The messages of one step. Memory is kept for the next step, so that steps of like sizes allocate nothing.
class MpiMessages {
 public:
  MpiMessages(const quire_mpi_table& mpi, int tag) : mpi_(mpi), tag_(tag) {}
  /// Leaves the memory of unfinished transfers behind: MPI may still write to it.
  ~MpiMessages();
  MpiMessages(const MpiMessages&) = delete;
  MpiMessages& operator=(const MpiMessages&) = delete;

  /// Memory for a message of `bytes`, valid until the next finish() of a later step begins; its number is index().
  std::byte* prepare(int64_t bytes);
  int index() const { return used_ - 1; }
  std::byte* payload(int message) { return memory_[static_cast<size_t>(message)].data() + kHeaderBytes; }

  /// Sends a prepared and filled message to a world rank; `what` is compared by its receiver.
  Status send(int message, uint64_t what, int rank);
  /// Receives `bytes`, that must be sent as `what`; gives the message's number.
  Result<int> receive(int64_t bytes, uint64_t what, int rank);

  /// Waits until all have arrived. `place` begins the messages of Errors; `describe` names what was sent.
  Status finish(const std::string& place, const AbortReason& abort,
                const std::optional<std::chrono::steady_clock::time_point>& deadline,
                const std::function<std::string(uint64_t)>& describe);
  /// Starts the next step: messages so far may be overwritten.
  void clear();

 private:
  static constexpr int64_t kHeaderBytes = 64;  // `what`, and then the payload on a cache line of its own
  struct Pending {
    void* request;
    int message;
    int rank;
    bool incoming;
    uint64_t what;
  };
  Error mpi_error(const std::string& what, int code) const;
  /// Looks at all pending messages once; true when none is left.
  Result<bool> look(const std::string& place, const std::function<std::string(uint64_t)>& describe);
  Status check_arrival(const Pending& message, int bytes, const std::string& place,
                       const std::function<std::string(uint64_t)>& describe);

  const quire_mpi_table& mpi_;
  int tag_;
  std::deque<std::vector<std::byte>> memory_;
  std::vector<int64_t> sizes_;
  int used_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace quire
