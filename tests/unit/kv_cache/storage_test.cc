// How layers are grouped, and the memory that their views share.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "kv_cache/kv_cache_storage.h"

namespace quire {
namespace {

constexpr KvCacheSpec kFull{KvCacheKind::kFullAttention, 3, 64, 64, 0};
constexpr KvCacheSpec kSliding{KvCacheKind::kSlidingWindow, 2, 24, 20, 512};

int64_t resident_bytes() {
  long total = 0;
  long resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  const int read = std::fscanf(file, "%ld %ld", &total, &resident);
  std::fclose(file);
  return read == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

TEST(KvCacheGroups, AreEqualSpecsInOrderOfTheirFirstLayer) {
  const std::vector<KvCacheGroup> groups = group_layers({kSliding, kFull, kSliding, kFull, kFull});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].spec, kSliding);
  EXPECT_EQ(groups[0].layers, (std::vector<int>{0, 2}));
  EXPECT_EQ(groups[1].layers, (std::vector<int>{1, 3, 4}));
  EXPECT_TRUE(group_layers({}).empty());
}

TEST(KvCacheGroups, BlockBytesCountAllLayersAligned) {
  EXPECT_EQ(block_bytes({kFull, {0, 1}}, 16, DType::kBFloat16), size_t{2 * 3 * 16 * (64 + 64) * 2});
  // 2 * 16 * 20 * 2 = 1280 and 2 * 16 * 24 * 2 = 1536 are multiples of 64; one head of 3 features is not.
  EXPECT_EQ(block_bytes({kSliding, {0}}, 16, DType::kBFloat16), size_t{1280 + 1536});
  const KvCacheSpec odd{KvCacheKind::kFullAttention, 1, 3, 1, 0};
  EXPECT_EQ(block_bytes({odd, {0}}, 16, DType::kBFloat16), size_t{128 + 64});
}

TEST(KvCacheStorage, LayersOfAGroupShareBlocksWithoutOverlapping) {
  const std::vector<KvCacheGroup> groups = group_layers({kSliding, kFull, kSliding, kFull});
  const KvCacheStorage storage(groups, {5, 7}, 32, DType::kFloat16);
  EXPECT_EQ(storage.group_count(), 2);
  for (int layer = 0; layer < 4; ++layer) {
    const ops::PagedKvLayer& view = storage.layer(layer);
    const KvCacheSpec& spec = layer % 2 == 0 ? kSliding : kFull;
    EXPECT_EQ(storage.group_of(layer), layer % 2);
    EXPECT_EQ(view.storage.rows(), layer % 2 == 0 ? 5 : 7);
    EXPECT_EQ(view.block_size, 32);
    EXPECT_EQ(view.kv_heads, spec.kv_heads);
    EXPECT_EQ(view.k_dim, spec.k_dim);
    EXPECT_EQ(view.v_dim, spec.v_dim);
    EXPECT_EQ(view.key_offset % 64, 0u);
    EXPECT_EQ(view.value_offset % 64, 0u);
    EXPECT_EQ(view.storage.row_stride() % 64, 0);
    const auto elements = static_cast<size_t>(spec.kv_heads * 32);
    EXPECT_GE(view.value_offset, view.key_offset + elements * static_cast<size_t>(spec.k_dim) * 2);
    const size_t end = view.value_offset + elements * static_cast<size_t>(spec.v_dim) * 2;
    const size_t next = layer < 2 ? storage.layer(layer + 2).key_offset : static_cast<size_t>(view.storage.cols());
    EXPECT_LE(end, next);
  }
  EXPECT_EQ(storage.layer(0).storage.raw(), storage.layer(2).storage.raw());
  EXPECT_NE(storage.layer(0).storage.raw(), storage.layer(1).storage.raw());
}

TEST(KvCacheStorage, TakesMemoryOnlyAsBlocksAreWritten) {
  const int64_t before = resident_bytes();
  const std::vector<KvCacheGroup> groups = group_layers(std::vector<KvCacheSpec>(30, kFull));
  const KvCacheStorage storage(groups, {100000}, 16, DType::kBFloat16);  // 37 GB
  const Tensor& memory = storage.layer(29).storage;
  EXPECT_EQ(*memory.row<uint8_t>(99999), 0) << "memory is zero at first";
  std::memset(memory.row<uint8_t>(3), 1, static_cast<size_t>(memory.cols()));
  EXPECT_LT(resident_bytes() - before, int64_t{32} << 20);
}

TEST(KvCacheStorage, AddressSpaceThatCannotBeHadEndsTheStart) {
  const std::vector<KvCacheGroup> groups = group_layers({kFull});
  EXPECT_THROW(KvCacheStorage(groups, {int64_t{1} << 40}, 16, DType::kFloat32), StartupError);
}

}  // namespace
}  // namespace quire
