#include "distributed/shm/shm_communicator.h"

#include <algorithm>
#include <array>
#include <utility>

#include "distributed/rank_order_sum.h"

namespace quire {
namespace {

// Up to this many bytes every rank sums everything; above it, from three ranks on, each sums a share. With two ranks
// both ways move the same bytes, and the first waits half as often.
constexpr int64_t kAtOnceBytes = int64_t{32} << 10;

int64_t largest(std::span<const Block> parts) {
  int64_t bytes = 0;
  for (const Block& part : parts) bytes = std::max(bytes, part.bytes());
  return bytes;
}

int64_t total(std::span<const Block> parts) {
  int64_t bytes = 0;
  for (const Block& part : parts) bytes += part.bytes();
  return bytes;
}

/// What part of [begin, begin + length) lies below `bytes`.
int64_t overlap(int64_t bytes, int64_t begin, int64_t length) { return std::clamp<int64_t>(bytes - begin, 0, length); }

}  // namespace

ShmCommunicator::ShmCommunicator(std::string name, std::shared_ptr<SharedSegment> segment, int channel, int rank,
                                 std::vector<int> ranks, std::vector<int> places)
    : Communicator(std::move(name), rank, std::move(ranks)),
      segment_(std::move(segment)),
      channel_(channel),
      places_(places.empty() ? this->ranks() : std::move(places)),
      chunk_bytes_(segment_->chunk_bytes()),
      spin_(segment_->spin()),
      sent_(static_cast<size_t>(size())),
      taken_(static_cast<size_t>(size())) {
  QUIRE_CHECK(channel >= 0 && channel < segment_->channels());
  for (const int place : places_) lines_.push_back(&segment_->round_line(channel, place));
}

Status ShmCommunicator::begin_round() {
  ++round_;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    QUIRE_RETURN_IF_ERROR(wait(lines_[static_cast<size_t>(peer)]->rounds, round_ - 1, peer));
  }
  return {};
}

void ShmCommunicator::publish(GroupOperation operation, int64_t bytes) {
  tag_ = tag_of(operation, bytes);
  RoundLine& line = *lines_[static_cast<size_t>(rank())];
  line.tags[round_ & 1] = tag_;
  line.rounds.publish(round_);
}

Status ShmCommunicator::await(int peer) {
  RoundLine& line = *lines_[static_cast<size_t>(peer)];
  QUIRE_RETURN_IF_ERROR(wait(line.rounds, round_, peer));
  if (line.tags[round_ & 1] != tag_) return different_operation(peer);
  return {};
}

Status ShmCommunicator::await_all() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) QUIRE_RETURN_IF_ERROR(await(peer));
  }
  return {};
}

Status ShmCommunicator::do_barrier() {
  QUIRE_RETURN_IF_ERROR(begin_round());
  publish(GroupOperation::kBarrier, 0);
  return await_all();
}

Status ShmCommunicator::do_all_reduce(const ConstBlock& in, const Block& out) {
  const bool at_once = size() == 2 || in.bytes() <= kAtOnceBytes;
  return at_once ? all_reduce_at_once(in, out) : all_reduce_by_shares(in, out);
}

Status ShmCommunicator::all_reduce_at_once(const ConstBlock& in, const Block& out) {
  int64_t begin = 0;
  do {
    const int64_t length = std::min(chunk_bytes_, in.bytes() - begin);
    QUIRE_RETURN_IF_ERROR(begin_round());
    copy_out(in, begin, length, buffer(rank()));
    publish(GroupOperation::kAllReduce, in.bytes());
    QUIRE_RETURN_IF_ERROR(await_all());
    sum_buffers(0, length, out, begin);
    begin += length;
  } while (begin < in.bytes());
  return {};
}

// Two rounds for each chunk: all write it whole and each sums its share; then all write their sums and read the
// others'.
Status ShmCommunicator::all_reduce_by_shares(const ConstBlock& in, const Block& out) {
  for (int64_t begin = 0; begin < in.bytes();) {
    const int64_t length = std::min(chunk_bytes_, in.bytes() - begin);
    const int64_t share = ((length + size() - 1) / size() + 63) / 64 * 64;
    const auto share_begin = [&](int peer) { return std::min(peer * share, length); };
    const auto share_bytes = [&](int peer) { return share_begin(peer + 1) - share_begin(peer); };

    QUIRE_RETURN_IF_ERROR(begin_round());
    copy_out(in, begin, length, buffer(rank()));
    publish(GroupOperation::kAllReduce, in.bytes());
    QUIRE_RETURN_IF_ERROR(await_all());
    // Read from this round's halves, written to the own half of the next, which nobody reads since all are in this one.
    std::byte* const sums = segment_->buffer(channel_, segment_rank(rank()), round_ + 1);
    sum_buffers(share_begin(rank()), share_bytes(rank()), block_of(sums, share), 0);

    QUIRE_RETURN_IF_ERROR(begin_round());
    publish(GroupOperation::kAllReduce, in.bytes());
    for (int step = 0; step < size(); ++step) {
      const int peer = (rank() + step) % size();
      if (peer != rank()) QUIRE_RETURN_IF_ERROR(await(peer));
      copy_in(buffer(peer), out, begin + share_begin(peer), share_bytes(peer));
    }
    begin += length;
  }
  return {};
}

void ShmCommunicator::sum_buffers(int64_t offset, int64_t bytes, const Block& out, int64_t out_offset) const {
  std::array<const float*, SharedSegment::kMaxRanks> sources;
  out.for_each_run(out_offset, bytes, [&](std::byte* run, int64_t done, int64_t count) {
    for (int peer = 0; peer < size(); ++peer) {
      sources[static_cast<size_t>(peer)] = reinterpret_cast<const float*>(buffer(peer) + offset + done);
    }
    sum_in_rank_order({sources.data(), static_cast<size_t>(size())}, count / static_cast<int64_t>(sizeof(float)),
                      reinterpret_cast<float*>(run));
  });
}

Status ShmCommunicator::do_all_gather(const ConstBlock& mine, std::span<const Block> parts) {
  copy_block(mine, parts[static_cast<size_t>(rank())]);
  const int64_t bytes = largest(parts);
  int64_t begin = 0;
  do {
    QUIRE_RETURN_IF_ERROR(begin_round());
    copy_out(mine, begin, overlap(mine.bytes(), begin, chunk_bytes_), buffer(rank()));
    publish(GroupOperation::kAllGather, total(parts));
    for (int step = 1; step < size(); ++step) {
      const int peer = (rank() + step) % size();
      const Block& part = parts[static_cast<size_t>(peer)];
      QUIRE_RETURN_IF_ERROR(await(peer));
      copy_in(buffer(peer), part, begin, overlap(part.bytes(), begin, chunk_bytes_));
    }
    begin += chunk_bytes_;
  } while (begin < bytes);
  return {};
}

Status ShmCommunicator::do_gather(const ConstBlock& mine, std::span<const Block> parts, int destination) {
  if (rank() == destination) copy_block(mine, parts[static_cast<size_t>(rank())]);
  const int64_t bytes = largest(parts);
  int64_t begin = 0;
  do {
    QUIRE_RETURN_IF_ERROR(begin_round());
    if (rank() != destination) copy_out(mine, begin, overlap(mine.bytes(), begin, chunk_bytes_), buffer(rank()));
    publish(GroupOperation::kGather, total(parts));
    for (int peer = 0; peer < size() && rank() == destination; ++peer) {
      if (peer == rank()) continue;
      const Block& part = parts[static_cast<size_t>(peer)];
      QUIRE_RETURN_IF_ERROR(await(peer));
      copy_in(buffer(peer), part, begin, overlap(part.bytes(), begin, chunk_bytes_));
    }
    begin += chunk_bytes_;
  } while (begin < bytes);
  return {};
}

Status ShmCommunicator::do_reduce_scatter(std::span<const ConstBlock> parts, const Block& out) {
  const int64_t share = chunk_bytes_ / size() / 64 * 64;  // of a buffer, for the part of each rank
  int64_t bytes = 0, all = 0;
  for (const ConstBlock& part : parts) {
    bytes = std::max(bytes, part.bytes());
    all += part.bytes();
  }
  int64_t begin = 0;
  do {
    QUIRE_RETURN_IF_ERROR(begin_round());
    for (int peer = 0; peer < size(); ++peer) {
      const ConstBlock& part = parts[static_cast<size_t>(peer)];
      copy_out(part, begin, overlap(part.bytes(), begin, share), buffer(rank()) + peer * share);
    }
    publish(GroupOperation::kReduceScatter, all);
    QUIRE_RETURN_IF_ERROR(await_all());
    sum_buffers(rank() * share, overlap(out.bytes(), begin, share), out, begin);
    begin += share;
  } while (begin < bytes);
  return {};
}

Status ShmCommunicator::do_broadcast(const Block& data, int source) {
  int64_t begin = 0;
  do {
    const int64_t length = std::min(chunk_bytes_, data.bytes() - begin);
    QUIRE_RETURN_IF_ERROR(begin_round());
    if (rank() == source) copy_out(read_only(data), begin, length, buffer(rank()));
    publish(GroupOperation::kBroadcast, data.bytes());
    if (rank() != source) {
      QUIRE_RETURN_IF_ERROR(await(source));
      copy_in(buffer(source), data, begin, length);
    }
    begin += length;
  } while (begin < data.bytes());
  return {};
}

}  // namespace quire
