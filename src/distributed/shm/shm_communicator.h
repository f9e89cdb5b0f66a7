// Collectives between the ranks of one machine, over a SharedSegment.
//
// They proceed in rounds. In a round a rank may write the half of its buffer that the round's number chooses, says so
// by counting its line up, and then reads what others wrote in the same round. A rank enters round r only when all
// others have entered r - 1: by then nobody reads round r - 2 any more, whose half of the buffer round r writes. So one
// wait a round is enough, and a rank that only gives (the source of a broadcast) does not wait for those who take.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "distributed/shm/shared_segment.h"

namespace quire {

class ShmCommunicator final : public Communicator {
 public:
  /// `ranks` are the group's world ranks and `rank` is the own place among them. `places` are their ranks in the
  /// segment, where those are not the same.
  ShmCommunicator(std::string name, std::shared_ptr<SharedSegment> segment, int channel, int rank,
                  std::vector<int> ranks, std::vector<int> places = {});

  void abort(std::string_view reason) override { segment_->abort(reason); }

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
  /// One round: waits until the own half may be written; then write to buffer(rank()) and publish().
  Status begin_round();
  void publish(GroupOperation operation, int64_t bytes);
  /// Waits for a rank, or all, to have published this round, of the same operation.
  Status await(int rank);
  Status await_all();

  /// What `rank` has written, or writes, in this round.
  std::byte* buffer(int rank) const { return segment_->buffer(channel_, segment_rank(rank), round_); }
  int segment_rank(int rank) const { return places_[static_cast<size_t>(rank)]; }
  int world_rank(int rank) const { return ranks()[static_cast<size_t>(rank)]; }

  Status all_reduce_at_once(const ConstBlock& in, const Block& out);
  Status all_reduce_by_shares(const ConstBlock& in, const Block& out);
  /// Sums `bytes` at `offset` of all ranks' buffers of this round into `out` at `out_offset`.
  void sum_buffers(int64_t offset, int64_t bytes, const Block& out, int64_t out_offset) const;

  /// Returns once the counter of `rank` has reached `target`, or with the reason why it will not.
  Status wait(SharedCounter& counter, uint32_t target, int rank);
  Status wait_long(SharedCounter& counter, uint32_t target, int rank);
  Status different_operation(int rank) const;

  std::shared_ptr<SharedSegment> segment_;
  int channel_;
  std::vector<int> places_;  ///< of each rank of the group, in the segment
  int64_t chunk_bytes_;
  std::chrono::microseconds spin_;
  std::vector<RoundLine*> lines_;  ///< of each rank of the group
  uint32_t round_ = 0;
  uint64_t tag_ = 0;                    ///< of this round
  std::vector<uint32_t> sent_, taken_;  ///< chunks to and from each rank
};

}  // namespace quire
