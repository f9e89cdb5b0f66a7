// The memory file through which the ranks of one machine meet: who they are, where each stands, and buffers to pass
// data.
//
// It has no name in any file system: it is a memfd, inherited by the ranks that rank 0 starts, and gone with the last
// process that holds it. Pages are taken only as they are used.
//
// A *channel* serves all groups of one division of the ranks (the tensor parallel groups, say, which are disjoint). In
// it each rank has a line of its own that counts its rounds, and a buffer of two halves that it alone writes; each
// ordered pair of ranks has a line and a buffer for messages.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "distributed/shm/shared_counter.h"

namespace quire {

struct SegmentOptions {
  int ranks = 1;
  int channels = 8;
  int64_t chunk_bytes = int64_t{256} << 10;  ///< one half of a rank's buffer; a multiple of 64
  /// How long a wait polls before it parks. Empty: 100 microseconds where every rank can have a CPU of its own, else
  /// none.
  std::optional<std::chrono::microseconds> spin;
  /// What must be equal on all ranks; empty takes build_identity().
  std::string build;
};

/// A rank's progress in a channel. `tags` says what its rounds are, by the round's lowest bit, so that ranks that do
/// different things find out.
struct alignas(128) RoundLine {
  SharedCounter rounds;
  uint64_t tags[2];
};

/// Messages from one rank to another. Each side writes a cache line of its own.
struct PairLine {
  alignas(128) SharedCounter sent;
  uint64_t message_bytes[2];  ///< size of the whole message that the chunk belongs to, by the chunk's lowest bit
  alignas(128) SharedCounter taken;
};

/// Whether a rank lives.
struct alignas(128) RankLine {
  std::atomic<int32_t> pid;  ///< 0 until the rank has joined
  std::atomic<uint32_t> heartbeat;
  std::atomic<uint32_t> left;  ///< 1 once it ends as it was told to
};

class SharedSegment {
 public:
  static constexpr int kMaxRanks = 64;

  static Result<std::shared_ptr<SharedSegment>> create(const SegmentOptions& options);
  /// Maps the file that another process created; takes the descriptor over. Refuses another number of ranks and another
  /// build, naming both.
  static Result<std::shared_ptr<SharedSegment>> attach(int fd, int ranks, std::string_view build = {});
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  int fd() const { return fd_; }
  int ranks() const;
  int channels() const;
  int64_t chunk_bytes() const;
  int64_t message_chunk_bytes() const;
  std::chrono::microseconds spin() const;

  RoundLine& round_line(int channel, int rank) const;
  std::byte* buffer(int channel, int rank, uint32_t round) const;
  PairLine& pair_line(int channel, int from, int to) const;
  std::byte* message_buffer(int channel, int from, int to, uint32_t chunk) const;
  RankLine& rank_line(int rank) const;

  /// Enters this process as `rank`; refused where another has done so.
  Status join(int rank);

  /// Ends all waits of all ranks with an Error of that kind that gives the reason. Only the first reason is kept. Holds
  /// also where another process was killed within the same call.
  void abort(std::string_view reason, ErrorKind kind = ErrorKind::kUnavailable);
  bool aborted() const;
  /// Empty until abort() has been called.
  std::string abort_reason() const;
  ErrorKind abort_kind() const;

 private:
  struct Header;
  struct Layout;
  SharedSegment(int fd, std::byte* data, size_t size);
  Header& header() const;
  size_t pair_index(int channel, int from, int to) const;

  int fd_;
  std::byte* data_;
  size_t size_;
  // Where the areas begin.
  size_t rank_lines_ = 0;
  size_t round_lines_ = 0;
  size_t pair_lines_ = 0;
  size_t buffers_ = 0;
  size_t message_buffers_ = 0;
};

}  // namespace quire
