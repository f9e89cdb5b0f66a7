#include "distributed/communicator.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace quire {
namespace {

constexpr int kSizeBits = 56;  // of a tag; the operation has four of the others, and what it is part of four

const char* name_of(size_t operation) {
  static constexpr const char* kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "gather",
                                           "broadcast",  "a message",  "barrier"};
  return operation < std::size(kNames) ? kNames[operation] : "unknown operation";
}

}  // namespace

Communicator::Communicator(std::string name, int rank, std::vector<int> ranks)
    : name_(std::move(name)), rank_(rank), ranks_(std::move(ranks)) {
  QUIRE_CHECK(rank_ >= 0 && rank_ < size());
}

std::string Communicator::place() const {
  return name_ + ", rank " + std::to_string(rank_) + " of " + std::to_string(size()) + ": " +
         (operation_ ? name_of(static_cast<size_t>(*operation_)) : "");
}

uint64_t Communicator::tag_of(GroupOperation operation, int64_t bytes) const {
  const uint64_t what = static_cast<uint64_t>(operation) | static_cast<uint64_t>(part_of_) << 4;
  return what << kSizeBits | (static_cast<uint64_t>(bytes) & ((uint64_t{1} << kSizeBits) - 1));
}

std::string Communicator::describe(uint64_t tag) {
  const auto what = static_cast<size_t>(tag >> kSizeBits);
  std::string text = name_of(what & 15);
  text += " of " + std::to_string(tag & ((uint64_t{1} << kSizeBits) - 1)) + " bytes";
  if (what >> 4 != 0) text += std::string(" as a part of ") + name_of((what >> 4) - 1);
  return text;
}

void Communicator::be_part_of(const Communicator& whole) {
  part_of_ = static_cast<uint8_t>(1 + static_cast<int>(whole.operation_.value_or(GroupOperation::kBarrier)));
  timeout_ = std::chrono::milliseconds(0);
  if (!whole.deadline_) return;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(*whole.deadline_ - std::chrono::steady_clock::now());
  timeout_ = std::max(left, std::chrono::milliseconds(1));
}

template <typename Function>
Status Communicator::run(GroupOperation operation, Function&& function) {
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
  return run(GroupOperation::kAllReduce, [&] { return do_all_reduce(in, out); });
}

Status Communicator::all_gather(const ConstBlock& mine, std::span<const Block> parts) {
  QUIRE_CHECK(static_cast<int>(parts.size()) == size());
  QUIRE_CHECK(mine.bytes() == parts[static_cast<size_t>(rank_)].bytes());
  return run(GroupOperation::kAllGather, [&] { return do_all_gather(mine, parts); });
}

Status Communicator::reduce_scatter(std::span<const ConstBlock> parts, const Block& out) {
  QUIRE_CHECK(static_cast<int>(parts.size()) == size());
  QUIRE_CHECK(out.bytes() == parts[static_cast<size_t>(rank_)].bytes());
  for (const ConstBlock& part : parts) QUIRE_CHECK(part.row_bytes % sizeof(float) == 0);
  return run(GroupOperation::kReduceScatter, [&] { return do_reduce_scatter(parts, out); });
}

Status Communicator::gather(const ConstBlock& mine, std::span<const Block> parts, int destination) {
  QUIRE_CHECK(static_cast<int>(parts.size()) == size() && destination >= 0 && destination < size());
  QUIRE_CHECK(mine.bytes() == parts[static_cast<size_t>(rank_)].bytes());
  return run(GroupOperation::kGather, [&] { return do_gather(mine, parts, destination); });
}

Status Communicator::broadcast(const Block& data, int source) {
  QUIRE_CHECK(source >= 0 && source < size());
  return run(GroupOperation::kBroadcast, [&] { return do_broadcast(data, source); });
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
  return run(GroupOperation::kMessage, [&] { return do_send(data, destination); });
}

Status Communicator::receive(const Block& data, int source) {
  QUIRE_CHECK(source >= 0 && source < size() && source != rank_);
  return run(GroupOperation::kMessage, [&] { return do_receive(data, source); });
}

Status Communicator::barrier() {
  return run(GroupOperation::kBarrier, [&] { return do_barrier(); });
}

}  // namespace quire
