#include "distributed/group_coordinator.h"

#include <utility>

namespace quire {
namespace {

// Bytes of a tensor's memory for a communicator of its device; nothing here reads them.
Block block(const Tensor& x) {
  const auto element = static_cast<int64_t>(dtype_size(x.dtype()));
  auto* const data = static_cast<std::byte*>(x.raw());
  if (x.contiguous()) return {data, 1, x.size() * element, x.size() * element};
  return {data, x.rows(), x.cols() * element, x.row_stride() * element};
}

ConstBlock const_block(const Tensor& x) { return read_only(block(x)); }

int64_t extent(const Tensor& x, int dim) { return dim == 0 ? x.rows() : x.cols(); }

int resolve_dim(int dim) {
  QUIRE_CHECK(dim >= -2 && dim < 2);
  return dim < 0 ? dim + 2 : dim;
}

/// The ranks' extents along a dimension: as given, or equal parts of `whole`.
std::vector<int64_t> part_sizes(std::span<const int64_t> sizes, int64_t whole, int ranks) {
  if (!sizes.empty()) {
    QUIRE_CHECK(static_cast<int>(sizes.size()) == ranks);
    return {sizes.begin(), sizes.end()};
  }
  QUIRE_CHECK(whole % ranks == 0);
  return std::vector<int64_t>(static_cast<size_t>(ranks), whole / ranks);
}

/// `whole` cut along `dim` into parts of those sizes.
std::vector<Tensor> cut(const Tensor& whole, int dim, const std::vector<int64_t>& sizes) {
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    parts.push_back(dim == 0 ? whole.slice_rows(begin, size) : whole.slice_cols(begin, size));
    begin += size;
  }
  QUIRE_CHECK(begin == extent(whole, dim));
  return parts;
}

bool same_shape(const Tensor& a, const Tensor& b) {
  return a.rows() == b.rows() && a.cols() == b.cols() && a.dtype() == b.dtype();
}

/// The communicator that moves memory of that kind of device between ranks.
Result<std::unique_ptr<Communicator>> communicator_for(Device device, const std::string& name, RankTransport& transport,
                                                       const std::vector<std::vector<int>>& groups) {
  switch (device.type) {
    case DeviceType::kCpu:
      return transport.create_communicator(name, groups);
  }
  return unsupported("the group " + name + " is for a kind of device that has no communicator");
}

}  // namespace

Result<std::shared_ptr<GroupCoordinator>> GroupCoordinator::create(std::string unique_name, RankTransport& transport,
                                                                   const std::vector<std::vector<int>>& groups,
                                                                   Device device) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                         communicator_for(device, unique_name, transport, groups));
  return std::shared_ptr<GroupCoordinator>(
      new GroupCoordinator(std::move(unique_name), device, std::move(communicator)));
}

GroupCoordinator::GroupCoordinator(std::string unique_name, Device device, std::unique_ptr<Communicator> communicator)
    : unique_name_(std::move(unique_name)), device_(device), communicator_(std::move(communicator)) {}

Status GroupCoordinator::all_reduce(Tensor& x) {
  QUIRE_CHECK(x.dtype() == DType::kFloat32 && x.device() == device_);
  return communicator_->all_reduce(const_block(x), block(x));
}

Status GroupCoordinator::all_reduce(const Tensor& x, Tensor& out) {
  QUIRE_CHECK(x.dtype() == DType::kFloat32 && same_shape(x, out) && x.device() == device_ && out.device() == device_);
  return communicator_->all_reduce(const_block(x), block(out));
}

Status GroupCoordinator::all_gather(const Tensor& x, Tensor& out, int dim, std::span<const int64_t> sizes) {
  dim = resolve_dim(dim);
  QUIRE_CHECK(x.dtype() == out.dtype() && x.device() == device_ && out.device() == device_);
  const std::vector<Tensor> parts = cut(out, dim, part_sizes(sizes, extent(out, dim), world_size()));
  QUIRE_CHECK(same_shape(parts[static_cast<size_t>(rank_in_group())], x));
  std::vector<Block> blocks;
  for (const Tensor& part : parts) blocks.push_back(block(part));
  return communicator_->all_gather(const_block(x), blocks);
}

Status GroupCoordinator::reduce_scatter(const Tensor& x, Tensor& out, int dim, std::span<const int64_t> sizes) {
  dim = resolve_dim(dim);
  QUIRE_CHECK(x.dtype() == DType::kFloat32 && x.device() == device_ && out.device() == device_);
  const std::vector<Tensor> parts = cut(x, dim, part_sizes(sizes, extent(x, dim), world_size()));
  QUIRE_CHECK(same_shape(parts[static_cast<size_t>(rank_in_group())], out));
  std::vector<ConstBlock> blocks;
  for (const Tensor& part : parts) blocks.push_back(const_block(part));
  return communicator_->reduce_scatter(blocks, block(out));
}

Status GroupCoordinator::gather(const Tensor& x, Tensor& out, int destination, int dim,
                                std::span<const int64_t> sizes) {
  dim = resolve_dim(dim);
  QUIRE_CHECK(x.device() == device_);
  const std::vector<int64_t> extents = part_sizes(sizes, extent(x, dim) * world_size(), world_size());
  QUIRE_CHECK(extents[static_cast<size_t>(rank_in_group())] == extent(x, dim));
  std::vector<Block> blocks;
  if (rank_in_group() == destination) {
    QUIRE_CHECK(x.dtype() == out.dtype() && out.device() == device_);
    for (const Tensor& part : cut(out, dim, extents)) blocks.push_back(block(part));
    QUIRE_CHECK(extent(x, 1 - dim) == extent(out, 1 - dim));
  } else {
    const int64_t other = extent(x, 1 - dim) * static_cast<int64_t>(dtype_size(x.dtype()));
    for (const int64_t size : extents) blocks.push_back(block_of(static_cast<void*>(nullptr), size * other));
  }
  return communicator_->gather(const_block(x), blocks, destination);
}

Status GroupCoordinator::broadcast(Tensor& x, int source) {
  QUIRE_CHECK(x.device() == device_);
  return communicator_->broadcast(block(x), source);
}

Status GroupCoordinator::broadcast_object(std::string& object, int source) {
  return communicator_->broadcast_string(object, source);
}

Status GroupCoordinator::send(const Tensor& x, int destination) {
  QUIRE_CHECK(x.device() == device_);
  return communicator_->send(const_block(x), destination);
}

Status GroupCoordinator::receive(Tensor& x, int source) {
  QUIRE_CHECK(x.device() == device_);
  return communicator_->receive(block(x), source);
}

}  // namespace quire
