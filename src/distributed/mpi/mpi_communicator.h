// Collectives between machines, over MPI's messages.
//
// MPI's own collectives are not used: MPI_Allreduce promises no order of sums, and creating MPI communicators blocks in
// a way that nobody can break off. Groups of quire's ranks over a network are small, so every rank exchanges directly
// with every other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "distributed/mpi/mpi_messages.h"

namespace quire {

class MpiCommunicator final : public Communicator {
 public:
  /// `channel` tells this group's messages from those of others with the same ranks.
  MpiCommunicator(std::string name, const quire_mpi_table& mpi, std::shared_ptr<AbortReason> abort, int channel,
                  int rank, std::vector<int> ranks);

  /// Ends this rank's waits only: the others learn of it as the launcher ends the job.
  void abort(std::string_view reason) override { abort_->set(reason); }

 protected:
  Status do_all_reduce(const ConstBlock& in, const Block& out) override;
  Status do_all_gather(const ConstBlock& mine, std::span<const Block> parts) override;
  Status do_reduce_scatter(std::span<const ConstBlock> parts, const Block& out) override;
  Status do_gather(const ConstBlock& mine, std::span<const Block> parts, int destination) override;
  Status do_broadcast(const Block& data, int source) override;
  Status do_send(const ConstBlock& data, int destination) override;
  Status do_receive(const Block& data, int source) override;
  Status do_barrier() override;

 private:
  /// Bytes [begin, begin + length) of a block, on their way.
  struct Piece {
    int64_t begin;
    int64_t length;
  };
  void start(GroupOperation operation, int64_t bytes);
  Status send_piece(const ConstBlock& block, Piece piece, int destination);
  Status send_to_all(const ConstBlock& block, Piece piece);
  Status expect(int64_t bytes, int source);
  /// Waits for a piece of `block` from `source`.
  Status receive_piece(const Block& block, Piece piece, int source);
  /// Moves `bytes` piece by piece, each a step of the operation; none is one piece of no bytes.
  Status by_pieces(GroupOperation operation, int64_t bytes, const std::function<Status(Piece)>& move);
  Status finish();
  /// What came from `rank` in this step; for the own rank, what was sent.
  std::byte* arrived(int rank) { return messages_.payload(message_of_[static_cast<size_t>(rank)]); }
  void sum_arrived(int64_t bytes, const Block& out, int64_t out_begin);
  Status all_reduce_by_shares(const ConstBlock& in, const Block& out, Piece piece);
  int world_rank(int rank) const { return ranks()[static_cast<size_t>(rank)]; }

  std::shared_ptr<AbortReason> abort_;
  MpiMessages messages_;
  std::vector<int> message_of_;  ///< of each rank, in this step
  uint64_t what_ = 0;
};

}  // namespace quire
