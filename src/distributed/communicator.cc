#include "distributed/communicator.h"

#include <utility>

namespace quire {

Communicator::Communicator(std::string name, int rank, std::vector<int> ranks)
    : name_(std::move(name)), rank_(rank), ranks_(std::move(ranks)) {
  QUIRE_CHECK(rank_ >= 0 && rank_ < size());
}

std::string Communicator::place() const {
  return name_ + ", rank " + std::to_string(rank_) + " of " + std::to_string(size()) + ": " + operation_;
}

template <typename Function>
Status Communicator::run(const char* operation, Function&& function) {
  if (failure_) return *failure_;
  operation_ = operation;
  deadline_.reset();
  const auto begin = std::chrono::steady_clock::now();
  if (timeout_.count() > 0) deadline_ = begin + timeout_;
  Status status = function();
  ++times_.calls;
  times_.inside += std::chrono::steady_clock::now() - begin;
  if (!status.ok()) failure_ = status.error();
  return status;
}

Status Communicator::all_reduce(const ConstBlock& in, const Block& out) {
  QUIRE_CHECK(in.bytes() == out.bytes() && in.row_bytes % sizeof(float) == 0 && out.row_bytes % sizeof(float) == 0);
  return run("all_reduce", [&] { return do_all_reduce(in, out); });
}

Status Communicator::all_gather(const ConstBlock& mine, std::span<const Block> parts) {
  QUIRE_CHECK(static_cast<int>(parts.size()) == size());
  QUIRE_CHECK(mine.bytes() == parts[static_cast<size_t>(rank_)].bytes());
  return run("all_gather", [&] { return do_all_gather(mine, parts); });
}

Status Communicator::reduce_scatter(std::span<const ConstBlock> parts, const Block& out) {
  QUIRE_CHECK(static_cast<int>(parts.size()) == size());
  QUIRE_CHECK(out.bytes() == parts[static_cast<size_t>(rank_)].bytes());
  for (const ConstBlock& part : parts) QUIRE_CHECK(part.row_bytes % sizeof(float) == 0);
  return run("reduce_scatter", [&] { return do_reduce_scatter(parts, out); });
}

Status Communicator::gather(const ConstBlock& mine, std::span<const Block> parts, int destination) {
  QUIRE_CHECK(static_cast<int>(parts.size()) == size() && destination >= 0 && destination < size());
  QUIRE_CHECK(mine.bytes() == parts[static_cast<size_t>(rank_)].bytes());
  return run("gather", [&] { return do_gather(mine, parts, destination); });
}

Status Communicator::broadcast(const Block& data, int source) {
  QUIRE_CHECK(source >= 0 && source < size());
  return run("broadcast", [&] { return do_broadcast(data, source); });
}

Status Communicator::broadcast_string(std::string& data, int source) {
  QUIRE_CHECK(source >= 0 && source < size());
  uint64_t length = data.size();
  QUIRE_RETURN_IF_ERROR(broadcast(block_of(&length, sizeof(length)), source));
  if (rank_ != source) data.resize(length);
  if (length == 0) return {};
  return broadcast(block_of(data.data(), static_cast<int64_t>(length)), source);
}

Status Communicator::send(const ConstBlock& data, int destination) {
  QUIRE_CHECK(destination >= 0 && destination < size() && destination != rank_);
  return run("send", [&] { return do_send(data, destination); });
}

Status Communicator::receive(const Block& data, int source) {
  QUIRE_CHECK(source >= 0 && source < size() && source != rank_);
  return run("receive", [&] { return do_receive(data, source); });
}

Status Communicator::barrier() {
  return run("barrier", [&] { return do_barrier(); });
}

}  // namespace quire
