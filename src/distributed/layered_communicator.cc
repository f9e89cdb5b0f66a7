#include "distributed/layered_communicator.h"

#include <algorithm>
#include <utility>

#include "distributed/rank_order_sum.h"

namespace quire {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;  // of a sum, that the memory for all ranks' parts stays small

template <typename AnyBlock>
std::vector<int64_t> sizes_of(std::span<const AnyBlock> parts) {
  std::vector<int64_t> bytes;
  for (const AnyBlock& part : parts) bytes.push_back(part.bytes());
  return bytes;
}

void reserve(std::vector<std::byte>& memory, int64_t bytes) {
  if (static_cast<int64_t>(memory.size()) < bytes) memory.resize(static_cast<size_t>(bytes));
}

}  // namespace

LayeredCommunicator::LayeredCommunicator(std::string name, int rank, std::vector<int> ranks, Layers layers)
    : Communicator(std::move(name), rank, std::move(ranks)), layers_(std::move(layers)) {
  QUIRE_CHECK(static_cast<int>(layers_.machines.size()) == size() && layers_.inside != nullptr);
  for (int member = 0; member < size(); ++member) {
    const auto machine = static_cast<size_t>(machine_of(member));
    if (machine == members_.size()) members_.emplace_back();
    QUIRE_CHECK(machine < members_.size());
    places_.push_back(static_cast<int>(members_[machine].size()));
    members_[machine].push_back(member);
  }
  QUIRE_CHECK(is_first() == (place_of(rank) == 0) && layers_.inside->rank() == place_of(rank));
}

void LayeredCommunicator::abort(std::string_view reason) {
  layers_.inside->abort(reason);
  layers_.all->abort(reason);
}

template <typename Function>
Status LayeredCommunicator::part(Communicator& layer, Function&& function) {
  layer.be_part_of(*this);
  const std::chrono::nanoseconds before = layer.times().waiting;
  Status status = function(layer);
  add_wait(layer.times().waiting - before);
  return status;
}

void LayeredCommunicator::lay_out(std::span<const int64_t> bytes) {
  offsets_.resize(static_cast<size_t>(size()));
  machine_ends_.clear();
  int64_t end = 0;
  for (const std::vector<int>& members : members_) {
    for (const int member : members) {
      offsets_[static_cast<size_t>(member)] = end;
      end += bytes[static_cast<size_t>(member)];
    }
    machine_ends_.push_back(end);
  }
  reserve(collected_, end);
}

std::vector<Block> LayeredCommunicator::collected_of_machines() {
  std::vector<Block> blocks;
  int64_t begin = 0;
  for (const int64_t end : machine_ends_) {
    blocks.push_back(block_of(static_cast<void*>(collected_.data() + begin), end - begin));
    begin = end;
  }
  return blocks;
}

Status LayeredCommunicator::collect_here(const ConstBlock& mine, std::span<const int64_t> bytes) {
  lay_out(bytes);
  std::vector<Block> parts;
  for (const int member : members_[static_cast<size_t>(own_machine())]) {
    parts.push_back(block_of(static_cast<void*>(collected(member)), bytes[static_cast<size_t>(member)]));
  }
  return part(*layers_.inside, [&](Communicator& inside) { return inside.gather(mine, parts, 0); });
}

Status LayeredCommunicator::collect_everywhere() {
  const std::vector<Block> machines = collected_of_machines();
  const ConstBlock own = read_only(machines[static_cast<size_t>(own_machine())]);
  return part(*layers_.between, [&](Communicator& between) { return between.all_gather(own, machines); });
}

void LayeredCommunicator::sum_collected(int64_t length, std::byte* out) {
  std::vector<const float*> sources;
  for (int member = 0; member < size(); ++member) sources.push_back(reinterpret_cast<const float*>(collected(member)));
  sum_in_rank_order(sources, length / static_cast<int64_t>(sizeof(float)), reinterpret_cast<float*>(out));
}

Status LayeredCommunicator::do_all_reduce(const ConstBlock& in, const Block& out) {
  int64_t begin = 0;
  do {
    const int64_t length = std::min(kPieceBytes, in.bytes() - begin);
    reserve(staging_, length);
    copy_out(in, begin, length, staging_.data());
    const std::vector<int64_t> bytes(static_cast<size_t>(size()), length);
    const Block piece = block_of(static_cast<void*>(staging_.data()), length);
    QUIRE_RETURN_IF_ERROR(collect_here(read_only(piece), bytes));
    if (is_first()) {
      QUIRE_RETURN_IF_ERROR(collect_everywhere());
      sum_collected(length, staging_.data());
    }
    QUIRE_RETURN_IF_ERROR(part(*layers_.inside, [&](Communicator& inside) { return inside.broadcast(piece, 0); }));
    copy_in(staging_.data(), out, begin, length);
    begin += length;
  } while (begin < in.bytes());
  return {};
}

Status LayeredCommunicator::do_all_gather(const ConstBlock& mine, std::span<const Block> parts) {
  QUIRE_RETURN_IF_ERROR(collect_here(mine, sizes_of(parts)));
  if (is_first()) QUIRE_RETURN_IF_ERROR(collect_everywhere());
  const Block everything = block_of(static_cast<void*>(collected_.data()), collected_bytes());
  QUIRE_RETURN_IF_ERROR(part(*layers_.inside, [&](Communicator& inside) { return inside.broadcast(everything, 0); }));
  for (int member = 0; member < size(); ++member) {
    const Block& to = parts[static_cast<size_t>(member)];
    copy_in(collected(member), to, 0, to.bytes());
  }
  return {};
}

// As a sum of everything, of which a rank keeps its part: layers do not use it between machines.
Status LayeredCommunicator::do_reduce_scatter(std::span<const ConstBlock> parts, const Block& out) {
  std::vector<std::byte> whole;
  int64_t own = 0;
  for (int member = 0; member < size(); ++member) {
    const ConstBlock& from = parts[static_cast<size_t>(member)];
    if (member == rank()) own = static_cast<int64_t>(whole.size());
    whole.resize(whole.size() + static_cast<size_t>(from.bytes()));
    copy_out(from, 0, from.bytes(), whole.data() + whole.size() - from.bytes());
  }
  const Block sum = block_of(static_cast<void*>(whole.data()), static_cast<int64_t>(whole.size()));
  QUIRE_RETURN_IF_ERROR(do_all_reduce(read_only(sum), sum));
  copy_in(whole.data() + own, out, 0, out.bytes());
  return {};
}

Status LayeredCommunicator::do_gather(const ConstBlock& mine, std::span<const Block> parts, int destination) {
  QUIRE_RETURN_IF_ERROR(collect_here(mine, sizes_of(parts)));
  if (is_first()) {
    const std::vector<Block> machines = collected_of_machines();
    const ConstBlock own = read_only(machines[static_cast<size_t>(own_machine())]);
    QUIRE_RETURN_IF_ERROR(part(*layers_.between, [&](Communicator& between) {
      return between.gather(own, machines, machine_of(destination));
    }));
  }
  const Block everything = block_of(static_cast<void*>(collected_.data()), collected_bytes());
  if (place_of(destination) != 0 && (rank() == destination || (is_first() && here(destination)))) {
    QUIRE_RETURN_IF_ERROR(part(*layers_.inside, [&](Communicator& inside) {
      return is_first() ? inside.send(read_only(everything), place_of(destination)) : inside.receive(everything, 0);
    }));
  }
  for (int member = 0; member < size() && rank() == destination; ++member) {
    const Block& to = parts[static_cast<size_t>(member)];
    copy_in(collected(member), to, 0, to.bytes());
  }
  return {};
}

// To the own machine's first rank, where the source is another; between the machines; inside them.
Status LayeredCommunicator::do_broadcast(const Block& data, int source) {
  const bool from_other = place_of(source) != 0;
  const auto inside_from = [&](int place) {
    return part(*layers_.inside, [&](Communicator& inside) { return inside.broadcast(data, place); });
  };
  if (here(source) && from_other) QUIRE_RETURN_IF_ERROR(inside_from(place_of(source)));
  if (is_first()) {
    QUIRE_RETURN_IF_ERROR(
        part(*layers_.between, [&](Communicator& between) { return between.broadcast(data, machine_of(source)); }));
  }
  if (here(source) && from_other) return {};
  return inside_from(0);
}

Status LayeredCommunicator::do_send(const ConstBlock& data, int destination) {
  const bool inside = here(destination);
  return part(inside ? *layers_.inside : *layers_.all,
              [&](Communicator& layer) { return layer.send(data, inside ? place_of(destination) : destination); });
}

Status LayeredCommunicator::do_receive(const Block& data, int source) {
  const bool inside = here(source);
  return part(inside ? *layers_.inside : *layers_.all,
              [&](Communicator& layer) { return layer.receive(data, inside ? place_of(source) : source); });
}

// Nobody leaves before all have come: the machines' first ranks meet in between.
Status LayeredCommunicator::do_barrier() {
  const auto meet = [](Communicator& layer) { return layer.barrier(); };
  QUIRE_RETURN_IF_ERROR(part(*layers_.inside, meet));
  if (is_first()) QUIRE_RETURN_IF_ERROR(part(*layers_.between, meet));
  return part(*layers_.inside, meet);
}

}  // namespace quire
