// The memory behind the paged cache: reserved at start, touched only as blocks are used.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/api.h"
#include "base/check.h"
#include "kv_cache/kv_cache_spec.h"
#include "ops/attention.h"
#include "tensor/tensor.h"

namespace quire {

/// Owns the storage of every group and gives each attention layer its view.
class QUIRE_API KvCacheStorage {
 public:
  /// Reserves (does not touch) `blocks_per_group[g]` blocks for each group. Throws StartupError when the address space
  /// cannot be had.
  KvCacheStorage(const std::vector<KvCacheGroup>& groups, const std::vector<int64_t>& blocks_per_group,
                 int64_t block_size, DType dtype, Device device = {});

  /// The view of attention layer `layer` (index among attention layers).
  const ops::PagedKvLayer& layer(int layer) const { return layers_[checked(layer)]; }
  /// Which group's block table that layer reads.
  int group_of(int layer) const { return group_of_[checked(layer)]; }
  int group_count() const { return group_count_; }

 private:
  size_t checked(int layer) const {
    QUIRE_CHECK(layer >= 0 && static_cast<size_t>(layer) < layers_.size());
    return static_cast<size_t>(layer);
  }

  struct Unmap {
    size_t bytes = 0;
    void operator()(void* memory) const;
  };

  std::vector<std::unique_ptr<void, Unmap>> reservations_;  ///< one per group
  std::vector<ops::PagedKvLayer> layers_;
  std::vector<int> group_of_;
  int group_count_ = 0;
};

}  // namespace quire
