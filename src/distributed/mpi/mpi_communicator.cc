#include "distributed/mpi/mpi_communicator.h"

#include <algorithm>
#include <utility>

#include "distributed/rank_order_sum.h"

namespace quire {
namespace {

constexpr int64_t kMessageBytes = int64_t{4} << 20;    // of one message
constexpr int64_t kSumAllBytes = int64_t{32} << 10;  // up to here every rank sums everything

int64_t message_overlap(int64_t bytes, int64_t begin, int64_t length) { return std::clamp<int64_t>(bytes - begin, 0, length); }

template <typename AnyBlock>
std::pair<int64_t, int64_t> largest_and_total(std::span<const AnyBlock> parts) {
  int64_t largest = 0, total = 0;
  for (const AnyBlock& part : parts) {
    largest = std::max(largest, part.bytes());
    total += part.bytes();
  }
  return {largest, total};
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::string name, const quire_mpi_table& mpi, std::shared_ptr<AbortReason> abort,
                                 int channel, int rank, std::vector<int> ranks)
    : Communicator(std::move(name), rank, std::move(ranks)),
      abort_(std::move(abort)),
      messages_(mpi, channel),
      message_of_(static_cast<size_t>(size())) {}

void MpiCommunicator::start(GroupOperation operation, int64_t bytes) {
  messages_.clear();
  what_ = tag_of(operation, bytes);
}

Status MpiCommunicator::send_piece(const ConstBlock& block, Piece piece, int destination) {
  copy_out(block, piece.begin, piece.length, messages_.prepare(piece.length));
  return messages_.send(messages_.index(), what_, world_rank(destination));
}

Status MpiCommunicator::send_to_all(const ConstBlock& block, Piece piece) {
  copy_out(block, piece.begin, piece.length, messages_.prepare(piece.length));
  const int message = messages_.index();
  message_of_[static_cast<size_t>(rank())] = message;
  for (int step = 1; step < size(); ++step) {
    QUIRE_RETURN_IF_ERROR(messages_.send(message, what_, world_rank((rank() + step) % size())));
  }
  return {};
}

Status MpiCommunicator::expect(int64_t bytes, int source) {
  QUIRE_ASSIGN_OR_RETURN(message_of_[static_cast<size_t>(source)], messages_.receive(bytes, what_, world_rank(source)));
  return {};
}

Status MpiCommunicator::finish() {
  const auto begin = std::chrono::steady_clock::now();
  Status status = messages_.finish(place(), *abort_, deadline(), describe);
  add_wait(begin);                                        // what of it was the message's own way cannot be told
  if (!status.ok()) abort_->set(status.error().message);  // the job is over: no rank may wait for another to leave it
  return status;
}

void MpiCommunicator::sum_arrived(int64_t bytes, const Block& out, int64_t out_begin) {
  std::vector<const float*> sources(static_cast<size_t>(size()));
  out.for_each_run(out_begin, bytes, [&](std::byte* run, int64_t done, int64_t count) {
    for (int peer = 0; peer < size(); ++peer) {
      sources[static_cast<size_t>(peer)] = reinterpret_cast<const float*>(arrived(peer) + done);
    }
    sum_in_rank_order(sources, count / static_cast<int64_t>(sizeof(float)), reinterpret_cast<float*>(run));
  });
}

Status MpiCommunicator::do_barrier() {
  start(GroupOperation::kBarrier, 0);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) QUIRE_RETURN_IF_ERROR(expect(0, peer));
  }
  QUIRE_RETURN_IF_ERROR(send_to_all({}, {0, 0}));
  return finish();
}

Status MpiCommunicator::do_all_reduce(const ConstBlock& in, const Block& out) {
  int64_t begin = 0;
  do {
    const Piece piece = {begin, std::min(kMessageBytes, in.bytes() - begin)};
    start(GroupOperation::kAllReduce, in.bytes());
    if (size() > 2 && piece.length > kSumAllBytes) {
      QUIRE_RETURN_IF_ERROR(all_reduce_by_shares(in, out, piece));
    } else {
      for (int peer = 0; peer < size(); ++peer) {
        if (peer != rank()) QUIRE_RETURN_IF_ERROR(expect(piece.length, peer));
      }
      QUIRE_RETURN_IF_ERROR(send_to_all(in, piece));
      QUIRE_RETURN_IF_ERROR(finish());
      sum_arrived(piece.length, out, begin);
    }
    begin += piece.length;
  } while (begin < in.bytes());
  return {};
}

Status MpiCommunicator::all_reduce_by_shares(const ConstBlock& in, const Block& out, Piece piece) {
  const int64_t share = ((piece.length + size() - 1) / size() + 63) / 64 * 64;
  const auto share_of = [&](int peer) {
    const int64_t begin = std::min(peer * share, piece.length);
    return Piece{piece.begin + begin, std::min(share, piece.length - begin)};
  };
  const Piece own = share_of(rank());
  copy_out(in, own.begin, own.length, messages_.prepare(own.length));
  message_of_[static_cast<size_t>(rank())] = messages_.index();
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank() + step) % size();
    QUIRE_RETURN_IF_ERROR(expect(own.length, peer));
    QUIRE_RETURN_IF_ERROR(send_piece(in, share_of(peer), peer));
  }
  QUIRE_RETURN_IF_ERROR(finish());
  sum_arrived(own.length, out, own.begin);

  messages_.clear();
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) QUIRE_RETURN_IF_ERROR(expect(share_of(peer).length, peer));
  }
  QUIRE_RETURN_IF_ERROR(send_to_all(read_only(out), own));
  QUIRE_RETURN_IF_ERROR(finish());
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) copy_in(arrived(peer), out, share_of(peer).begin, share_of(peer).length);
  }
  return {};
}

Status MpiCommunicator::do_all_gather(const ConstBlock& mine, std::span<const Block> parts) {
  const auto [largest, total] = largest_and_total(parts);
  int64_t begin = 0;
  do {
    const auto length_of = [&, begin](int peer) {
      return message_overlap(parts[static_cast<size_t>(peer)].bytes(), begin, kMessageBytes);
    };
    start(GroupOperation::kAllGather, total);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) QUIRE_RETURN_IF_ERROR(expect(length_of(peer), peer));
    }
    QUIRE_RETURN_IF_ERROR(send_to_all(mine, {begin, length_of(rank())}));
    QUIRE_RETURN_IF_ERROR(finish());
    for (int peer = 0; peer < size(); ++peer) {
      copy_in(arrived(peer), parts[static_cast<size_t>(peer)], begin, length_of(peer));
    }
    begin += kMessageBytes;
  } while (begin < largest);
  return {};
}

Status MpiCommunicator::do_reduce_scatter(std::span<const ConstBlock> parts, const Block& out) {
  const auto [largest, total] = largest_and_total(parts);
  int64_t begin = 0;
  do {
    const int64_t own = message_overlap(out.bytes(), begin, kMessageBytes);
    start(GroupOperation::kReduceScatter, total);
    for (int step = 0; step < size(); ++step) {
      const int peer = (rank() + step) % size();
      const ConstBlock& part = parts[static_cast<size_t>(peer)];
      const Piece piece = {begin, message_overlap(part.bytes(), begin, kMessageBytes)};
      if (peer == rank()) {
        copy_out(part, begin, own, messages_.prepare(own));
        message_of_[static_cast<size_t>(peer)] = messages_.index();
        continue;
      }
      QUIRE_RETURN_IF_ERROR(expect(own, peer));
      QUIRE_RETURN_IF_ERROR(send_piece(part, piece, peer));
    }
    QUIRE_RETURN_IF_ERROR(finish());
    sum_arrived(own, out, begin);
    begin += kMessageBytes;
  } while (begin < largest);
  return {};
}

Status MpiCommunicator::do_gather(const ConstBlock& mine, std::span<const Block> parts, int destination) {
  const auto [largest, total] = largest_and_total(parts);
  if (rank() == destination) copy_block(mine, parts[static_cast<size_t>(rank())]);
  int64_t begin = 0;
  do {
    const auto length_of = [&, begin](int peer) {
      return message_overlap(parts[static_cast<size_t>(peer)].bytes(), begin, kMessageBytes);
    };
    start(GroupOperation::kGather, total);
    if (rank() != destination) {
      QUIRE_RETURN_IF_ERROR(send_piece(mine, {begin, length_of(rank())}, destination));
      QUIRE_RETURN_IF_ERROR(finish());
    } else {
      for (int peer = 0; peer < size(); ++peer) {
        if (peer != rank()) QUIRE_RETURN_IF_ERROR(expect(length_of(peer), peer));
      }
      QUIRE_RETURN_IF_ERROR(finish());
      for (int peer = 0; peer < size(); ++peer) {
        if (peer != rank()) copy_in(arrived(peer), parts[static_cast<size_t>(peer)], begin, length_of(peer));
      }
    }
    begin += kMessageBytes;
  } while (begin < largest);
  return {};
}

Status MpiCommunicator::by_pieces(GroupOperation operation, int64_t bytes, const std::function<Status(Piece)>& move) {
  int64_t begin = 0;
  do {
    const Piece piece = {begin, std::min(kMessageBytes, bytes - begin)};
    start(operation, bytes);
    QUIRE_RETURN_IF_ERROR(move(piece));
    begin += piece.length;
  } while (begin < bytes);
  return {};
}

Status MpiCommunicator::receive_piece(const Block& block, Piece piece, int source) {
  QUIRE_RETURN_IF_ERROR(expect(piece.length, source));
  QUIRE_RETURN_IF_ERROR(finish());
  copy_in(arrived(source), block, piece.begin, piece.length);
  return {};
}

Status MpiCommunicator::do_broadcast(const Block& data, int source) {
  return by_pieces(GroupOperation::kBroadcast, data.bytes(), [&](Piece piece) -> Status {
    if (rank() != source) return receive_piece(data, piece, source);
    QUIRE_RETURN_IF_ERROR(send_to_all(read_only(data), piece));
    return finish();
  });
}

Status MpiCommunicator::do_send(const ConstBlock& data, int destination) {
  return by_pieces(GroupOperation::kMessage, data.bytes(), [&](Piece piece) -> Status {
    QUIRE_RETURN_IF_ERROR(send_piece(data, piece, destination));
    return finish();
  });
}

Status MpiCommunicator::do_receive(const Block& data, int source) {
  return by_pieces(GroupOperation::kMessage, data.bytes(),
                   [&](Piece piece) { return receive_piece(data, piece, source); });
}

}  // namespace quire
