// How ShmCommunicator waits, what can break a wait off, and messages between two ranks.
#include <algorithm>

#include "distributed/shm/shm_communicator.h"

namespace quire {
namespace {

// How often a parked wait looks for an abort.
constexpr auto kTick = std::chrono::milliseconds(50);
constexpr int kPollsPerLook = 64;

Error broken_off(const std::string& place, const SharedSegment& segment) {
  return {segment.abort_kind(), place + " was broken off: " + segment.abort_reason(), {}};
}

}  // namespace

Status ShmCommunicator::wait(SharedCounter& counter, uint32_t target, int peer) {
  if (counter.reached(target)) return {};
  const auto begin = std::chrono::steady_clock::now();
  Status status = wait_long(counter, target, peer);
  add_wait(begin);
  return status;
}

Status ShmCommunicator::wait_long(SharedCounter& counter, uint32_t target, int peer) {
  if (spin_.count() > 0) {
    const auto end = std::chrono::steady_clock::now() + spin_;
    do {
      for (int i = 0; i < kPollsPerLook; ++i) {
        if (counter.reached(target)) return {};
        spin_pause();
      }
      if (segment_->aborted()) return broken_off(place(), *segment_);
    } while (std::chrono::steady_clock::now() < end);
  }
  while (!counter.reached(target)) {
    if (segment_->aborted()) return broken_off(place(), *segment_);
    std::chrono::nanoseconds longest = kTick;
    if (deadline()) {
      const std::chrono::nanoseconds left = *deadline() - std::chrono::steady_clock::now();
      if (left.count() <= 0) {
        return Error{ErrorKind::kUnavailable,
                     place() + " waited " + std::to_string(timeout().count()) + " ms for rank " +
                         std::to_string(world_rank(peer)) + " of the world",
                     {}};
      }
      longest = std::min(longest, left);
    }
    counter.park(target, longest);
  }
  return {};
}

Status ShmCommunicator::different_operation(int peer) const {
  const uint64_t theirs = lines_[static_cast<size_t>(peer)]->tags[round_ & 1];
  return internal_error(place() + ": rank " + std::to_string(world_rank(peer)) + " of the world does " +
                        describe(theirs) + " while this rank does " + describe(tag_));
}

// Chunk k of a pair goes through half k of its buffer, once chunk k - 2 has been taken.
Status ShmCommunicator::do_send(const ConstBlock& data, int destination) {
  PairLine& line = segment_->pair_line(channel_, segment_rank(rank()), segment_rank(destination));
  const int64_t chunk_bytes = segment_->message_chunk_bytes();
  int64_t begin = 0;
  do {
    const int64_t length = std::min(chunk_bytes, data.bytes() - begin);
    const uint32_t chunk = ++sent_[static_cast<size_t>(destination)];
    QUIRE_RETURN_IF_ERROR(wait(line.taken, chunk - 2, destination));
    copy_out(data, begin, length,
             segment_->message_buffer(channel_, segment_rank(rank()), segment_rank(destination), chunk));
    line.message_bytes[chunk & 1] = static_cast<uint64_t>(data.bytes());
    line.sent.publish(chunk);
    begin += length;
  } while (begin < data.bytes());
  return {};
}

Status ShmCommunicator::do_receive(const Block& data, int source) {
  PairLine& line = segment_->pair_line(channel_, segment_rank(source), segment_rank(rank()));
  const int64_t chunk_bytes = segment_->message_chunk_bytes();
  int64_t begin = 0;
  do {
    const int64_t length = std::min(chunk_bytes, data.bytes() - begin);
    const uint32_t chunk = ++taken_[static_cast<size_t>(source)];
    QUIRE_RETURN_IF_ERROR(wait(line.sent, chunk, source));
    if (line.message_bytes[chunk & 1] != static_cast<uint64_t>(data.bytes())) {
      return internal_error(place() + ": rank " + std::to_string(world_rank(source)) + " of the world sent " +
                            std::to_string(line.message_bytes[chunk & 1]) + " bytes where " +
                            std::to_string(data.bytes()) + " were expected");
    }
    copy_in(segment_->message_buffer(channel_, segment_rank(source), segment_rank(rank()), chunk), data, begin, length);
    line.taken.publish(chunk);
    begin += length;
  } while (begin < data.bytes());
  return {};
}

}  // namespace quire
