// A group whose ranks are on several machines, several of them on one: what they do together goes over a communicator
// inside each machine and one between the machines' first ranks.
//
// The parts of all ranks are collected and then summed in the order of the ranks, not machine by machine: a sum has the
// same bits wherever the ranks are placed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distributed/communicator.h"

namespace quire {

class LayeredCommunicator final : public Communicator {
 public:
  struct Layers {
    std::vector<int> machines;              ///< of each rank of the group; counted from 0 as the ranks name them first
    std::unique_ptr<Communicator> inside;   ///< the ranks of this machine, in their order
    std::unique_ptr<Communicator> between;  ///< the first rank of each machine; none on other ranks
    std::unique_ptr<Communicator> all;      ///< all ranks, for messages between those of different machines
  };
  LayeredCommunicator(std::string name, int rank, std::vector<int> ranks, Layers layers);

  void abort(std::string_view reason) override;

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
  /// Runs an operation of one layer as a part of this group's.
  template <typename Function>
  Status part(Communicator& layer, Function&& function);

  int machine_of(int rank) const { return layers_.machines[static_cast<size_t>(rank)]; }
  int own_machine() const { return machine_of(rank()); }
  bool here(int rank) const { return machine_of(rank) == own_machine(); }
  bool is_first() const { return layers_.between != nullptr; }
  /// A rank's place among those of its machine.
  int place_of(int rank) const { return places_[static_cast<size_t>(rank)]; }

  /// Makes room in collected_ for so many bytes of each rank.
  void lay_out(std::span<const int64_t> bytes);
  std::byte* collected(int rank) { return collected_.data() + offsets_[static_cast<size_t>(rank)]; }
  /// The parts of each machine, which are adjacent.
  std::vector<Block> collected_of_machines();
  int64_t collected_bytes() const { return machine_ends_.back(); }
  /// Brings the parts of this machine's ranks to their first.
  Status collect_here(const ConstBlock& mine, std::span<const int64_t> bytes);
  /// Brings what each machine's first rank has collected to all of these. For first ranks.
  Status collect_everywhere();
  /// out = sum of the `length` bytes collected of each rank.
  void sum_collected(int64_t length, std::byte* out);

  Layers layers_;
  std::vector<int> places_;
  std::vector<std::vector<int>> members_;  ///< ranks of each machine
  std::vector<std::byte> collected_;
  std::vector<int64_t> offsets_;       ///< of each rank's part
  std::vector<int64_t> machine_ends_;  ///< where the parts of each machine end
  std::vector<std::byte> staging_;
};

}  // namespace quire
