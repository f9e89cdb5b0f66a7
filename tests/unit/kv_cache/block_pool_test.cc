#include "kv_cache/block_pool.h"

#include <gtest/gtest.h>

#include <random>

#include "base/check.h"

namespace quire {
namespace {

TEST(BlockPool, UncachedBlocksAreTakenBeforeCachedOnesAndTheOldestOfThoseFirst) {
  BlockPool pool(4);
  for (int32_t block = 0; block < 4; ++block) EXPECT_EQ(pool.take().block, block);
  for (const int32_t block : {2, 0}) {
    pool.set_owner(block, 100 + block);
    pool.release(block);
  }
  pool.release(3);
  EXPECT_EQ(pool.free_order(), (std::vector<int32_t>{3, 2, 0}));
  EXPECT_EQ(pool.take().evicted_owner, BlockPool::kNone);
  const BlockPool::Taken evicted = pool.take();
  EXPECT_EQ(evicted.block, 2);
  EXPECT_EQ(evicted.evicted_owner, 102);
  EXPECT_EQ(pool.owner(2), BlockPool::kNone);
}

TEST(BlockPool, SharingTakesACachedBlockOutOfTheFreeList) {
  BlockPool pool(2);
  pool.set_owner(pool.take().block, 7);
  pool.release(0);
  pool.share(0);
  pool.share(0);
  EXPECT_EQ(pool.references(0), 2);
  EXPECT_EQ(pool.free_count(), 1);
  pool.release(0);
  EXPECT_EQ(pool.used_count(), 1);
}

TEST(BlockPool, MisuseIsACheckFailure) {
  BlockPool pool(1);
  EXPECT_THROW(pool.release(0), CheckFailure);
  pool.take();
  EXPECT_THROW(pool.take(), CheckFailure);
  EXPECT_THROW(pool.share(1), CheckFailure);
  const std::vector<int32_t> wrong = {2};
  EXPECT_THROW(pool.check_integrity(wrong), CheckFailure);
}

TEST(BlockPool, RandomUseKeepsTheBooks) {
  std::mt19937 random(1);
  BlockPool pool(50);
  std::vector<int32_t> references(50, 0);
  for (int i = 0; i < 20000; ++i) {
    const auto block = static_cast<int32_t>(random() % 50);
    if (random() % 3 == 0 && pool.free_count() > 0) {
      ++references[pool.take().block];
    } else if (references[block] > 0 && random() % 2 == 0) {
      if (random() % 2 == 0) pool.set_owner(block, block);
      pool.release(block);
      --references[block];
    } else if (references[block] > 0 || pool.owner(block) != BlockPool::kNone) {
      pool.share(block);
      ++references[block];
    }
    if (i % 100 == 0) pool.check_integrity(references);
  }
}

}  // namespace
}  // namespace quire
