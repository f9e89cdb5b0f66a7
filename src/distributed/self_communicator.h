// The communicator of a group of one: copies where the result goes elsewhere, and nothing else.
#pragma once

#include <string>

#include "distributed/communicator.h"

namespace quire {

class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator(std::string name, int world_rank) : Communicator(std::move(name), 0, {world_rank}) {}
  void abort(std::string_view) override {}  // nothing waits

 protected:
  Status do_all_reduce(const ConstBlock& in, const Block& out) override { return copy(in, out); }
  Status do_all_gather(const ConstBlock& mine, std::span<const Block> parts) override { return copy(mine, parts[0]); }
  Status do_reduce_scatter(std::span<const ConstBlock> parts, const Block& out) override { return copy(parts[0], out); }
  Status do_gather(const ConstBlock& mine, std::span<const Block> parts, int) override { return copy(mine, parts[0]); }
  Status do_broadcast(const Block&, int) override { return {}; }
  Status do_send(const ConstBlock&, int) override { return nobody(); }
  Status do_receive(const Block&, int) override { return nobody(); }
  Status do_barrier() override { return {}; }

 private:
  static Status copy(const ConstBlock& from, const Block& to) {
    copy_block(from, to);
    return {};
  }
  Status nobody() const { return internal_error(place() + " has no other rank in its group"); }
};

}  // namespace quire
