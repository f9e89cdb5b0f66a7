#include "kv_cache/kv_cache_storage.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <limits>
#include <memory>

#include "base/check.h"
#include "kv_cache/block_layout.h"

namespace quire {

namespace {

/// Zeroed address space that takes memory page by page when first written.
void* reserve(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw StartupError(
        fmt::format("cannot reserve {} MiB of address space for the KV cache; lower --kv-cache-memory-bytes or raise "
                    "the limit of virtual memory (ulimit -v)",
                    bytes >> 20));
  }
  // Only asked for: with huge pages reads of the cache seldom miss the TLB, without them all is right the same.
  madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

ops::PagedKvLayer layer_view(const KvCacheSpec& spec, int64_t block_size, DType dtype, const Tensor& storage,
                             size_t index) {
  const BlockLayout layout = layout_of(spec, block_size, dtype);
  ops::PagedKvLayer layer;
  layer.storage = storage;
  layer.dtype = dtype;
  layer.block_size = block_size;
  layer.kv_heads = spec.kv_heads;
  layer.k_dim = spec.k_dim;
  layer.v_dim = spec.v_dim;
  layer.key_offset = index * layout.layer_bytes;
  layer.value_offset = layer.key_offset + layout.key_bytes;
  return layer;
}

}  // namespace

void KvCacheStorage::Unmap::operator()(void* memory) const { munmap(memory, bytes); }

KvCacheStorage::KvCacheStorage(const std::vector<KvCacheGroup>& groups, const std::vector<int64_t>& blocks_per_group,
                               int64_t block_size, DType dtype, Device device)
    : group_count_(static_cast<int>(groups.size())) {
  QUIRE_CHECK(groups.size() == blocks_per_group.size() && device.type == DeviceType::kCpu);
  QUIRE_CHECK(block_size > 0 && block_size % ops::PagedKvLayer::kPanelWidth == 0);
  for (size_t group = 0; group < groups.size(); ++group) {
    if (groups[group].layers.empty()) continue;  // they are all in other pipeline stages
    const auto row_bytes = static_cast<int64_t>(block_bytes(groups[group], block_size, dtype));
    const int64_t blocks = blocks_per_group[group];
    QUIRE_CHECK(blocks > 0 && row_bytes > 0 && blocks <= std::numeric_limits<int64_t>::max() / row_bytes);
    const auto bytes = static_cast<size_t>(blocks * row_bytes);
    reservations_.emplace_back(reserve(bytes), Unmap{bytes});
    const Tensor storage = Tensor::view(reservations_.back().get(), blocks, row_bytes, DType::kUInt8, device);
    for (size_t index = 0; index < groups[group].layers.size(); ++index) {
      const auto layer = static_cast<size_t>(groups[group].layers[index]);
      if (layers_.size() <= layer) {
        layers_.resize(layer + 1);
        group_of_.resize(layer + 1, -1);
      }
      layers_[layer] = layer_view(groups[group].spec, block_size, dtype, storage, index);
      group_of_[layer] = static_cast<int>(group);
    }
  }
}

}  // namespace quire
