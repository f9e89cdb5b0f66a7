// What the ranks of a group do together, over raw memory. One implementation per way in which ranks reach each other:
// alone (self), one machine (shm), several machines (mpi).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "distributed/block.h"

namespace quire {

/// What a rank's operations took so far, and how much of that it waited for other ranks.
struct CommunicatorTimes {
  int64_t calls = 0;
  std::chrono::nanoseconds inside{0};
  std::chrono::nanoseconds waiting{0};
};

/// What the ranks of a group do together.
enum class GroupOperation : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kGather,
  kBroadcast,
  kMessage,  ///< send and receive
  kBarrier,
};

/// A rank's end of one group. All ranks of the group must call the same operations in the same order with sizes that
/// agree; calls that do not are found and answered with an Error where the ranks meet.
///
/// One thread at a time uses a communicator; abort() may come from any. No wait lasts for ever: it ends with an Error
/// when somebody aborts, when a rank is known to have died, or when the timeout has passed. After an Error the ranks no
/// longer agree on where they are, so every later call gives that same Error.
///
/// Sums are float32, in ascending order of ranks: all ranks get the same bits, each time, at one size of the group.
class Communicator {
 public:
  /// `ranks` are the group's members by their ranks in the world, `rank` the own place among them. `name` is for
  /// messages.
  Communicator(std::string name, int rank, std::vector<int> ranks);
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::string& name() const { return name_; }
  /// The own place in the group.
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  /// The members by their ranks in the world.
  const std::vector<int>& ranks() const { return ranks_; }

  /// How long one operation may wait in total; zero, the default, sets no limit.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

  /// out = sum of every rank's `in` (float32). `out` may be the same memory as `in`.
  Status all_reduce(const ConstBlock& in, const Block& out);
  /// parts[i] = rank i's `mine`, on every rank. Parts may differ in size; every rank knows all sizes.
  Status all_gather(const ConstBlock& mine, std::span<const Block> parts);
  /// out = sum over the ranks of their parts[rank()] (float32). Parts may differ in size.
  Status reduce_scatter(std::span<const ConstBlock> parts, const Block& out);
  /// As all_gather, on rank `destination` only. Elsewhere the parts have sizes, and their data is not touched.
  Status gather(const ConstBlock& mine, std::span<const Block> parts, int destination);
  /// Rank `source`'s bytes to all.
  Status broadcast(const Block& data, int source);
  /// Rank `source`'s string to all, of a length that only it knows.
  Status broadcast_string(std::string& data, int source);
  /// To one other rank, which must receive as many bytes. May wait until it does.
  Status send(const ConstBlock& data, int destination);
  Status receive(const Block& data, int source);
  /// Returns when all ranks have called it.
  Status barrier();

  /// For the thread that uses the communicator.
  const CommunicatorTimes& times() const { return times_; }

  /// The next operations are parts of the one under way in `whole`: ranks compare that too, and its time limits them.
  void be_part_of(const Communicator& whole);

  /// Ends the waits of all ranks that can be told, in this and every other group of the same transport.
  virtual void abort(std::string_view reason) = 0;

 protected:
  virtual Status do_all_reduce(const ConstBlock& in, const Block& out) = 0;
  virtual Status do_all_gather(const ConstBlock& mine, std::span<const Block> parts) = 0;
  virtual Status do_reduce_scatter(std::span<const ConstBlock> parts, const Block& out) = 0;
  virtual Status do_gather(const ConstBlock& mine, std::span<const Block> parts, int destination) = 0;
  virtual Status do_broadcast(const Block& data, int source) = 0;
  virtual Status do_send(const ConstBlock& data, int destination) = 0;
  virtual Status do_receive(const Block& data, int source) = 0;
  virtual Status do_barrier() = 0;

  /// When the operation under way must give up; empty without a timeout. Set as it begins.
  const std::optional<std::chrono::steady_clock::time_point>& deadline() const { return deadline_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  /// Counts a wait for other ranks that began then and ends now.
  void add_wait(std::chrono::steady_clock::time_point begin) { add_wait(std::chrono::steady_clock::now() - begin); }
  void add_wait(std::chrono::nanoseconds time) { times_.waiting += time; }
  /// A number for an operation and its size, which ranks compare as they meet.
  uint64_t tag_of(GroupOperation operation, int64_t bytes) const;
  /// Such a number in words: "all_reduce of 64 bytes".
  static std::string describe(uint64_t tag);
  /// "tp:0, rank 1 of 2: all_reduce", the beginning of messages.
  std::string place() const;

 private:
  /// Runs one operation with the common rules around it.
  template <typename Function>
  Status run(GroupOperation operation, Function&& function);

  std::string name_;
  int rank_;
  std::vector<int> ranks_;
  std::chrono::milliseconds timeout_{0};
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::optional<GroupOperation> operation_;  ///< under way, or the last one
  uint8_t part_of_ = 0;                      ///< 1 + the operation that this group's are parts of; 0: none
  std::optional<Error> failure_;
  CommunicatorTimes times_;
};

}  // namespace quire
