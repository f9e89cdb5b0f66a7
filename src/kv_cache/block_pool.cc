#include "kv_cache/block_pool.h"

#include <limits>
#include <string>

#include "base/check.h"

namespace quire {

BlockPool::BlockPool(int64_t blocks) {
  QUIRE_CHECK(blocks > 0 && blocks < std::numeric_limits<int32_t>::max());
  blocks_.resize(static_cast<size_t>(blocks) + 1);
  const int32_t end = sentinel();
  blocks_[end].previous = end;
  blocks_[end].next = end;
  // Ascending order: a pool that is never full touches only its first pages.
  for (int32_t block = 0; block < end; ++block) link_after(blocks_[end].previous, block);
  free_count_ = blocks;
}

void BlockPool::unlink(int32_t block) {
  Block& entry = blocks_[block];
  blocks_[entry.previous].next = entry.next;
  blocks_[entry.next].previous = entry.previous;
  entry.previous = kNone;
  entry.next = kNone;
}

void BlockPool::link_after(int32_t position, int32_t block) {
  Block& entry = blocks_[block];
  entry.previous = position;
  entry.next = blocks_[position].next;
  blocks_[entry.next].previous = block;
  blocks_[position].next = block;
}

BlockPool::Taken BlockPool::take() {
  const int32_t block = blocks_[sentinel()].next;
  QUIRE_CHECK(free_count_ > 0 && block != sentinel());
  unlink(block);
  --free_count_;
  Taken taken{block, blocks_[block].owner};
  blocks_[block].references = 1;
  blocks_[block].owner = kNone;
  return taken;
}

void BlockPool::share(int32_t block) {
  QUIRE_CHECK(block >= 0 && block < sentinel());
  if (blocks_[block].references == 0) {
    unlink(block);
    --free_count_;
  }
  ++blocks_[block].references;
}

void BlockPool::release(int32_t block) {
  QUIRE_CHECK(block >= 0 && block < sentinel());
  QUIRE_CHECK(blocks_[block].references > 0);
  if (--blocks_[block].references > 0) return;
  const bool cached = blocks_[block].owner != kNone;
  link_after(cached ? blocks_[sentinel()].previous : sentinel(), block);
  ++free_count_;
}

void BlockPool::check_integrity(std::span<const int32_t> expected_references) const {
  const auto fail = [](int32_t block, const std::string& what) {
    throw CheckFailure("block pool: block " + std::to_string(block) + " " + what);
  };
  QUIRE_CHECK(static_cast<int64_t>(expected_references.size()) == size());
  int64_t unused = 0;
  for (int32_t block = 0; block < sentinel(); ++block) {
    const Block& entry = blocks_[block];
    if (entry.references != expected_references[block]) {
      fail(block, "has " + std::to_string(entry.references) + " references, its users hold " +
                      std::to_string(expected_references[block]));
    }
    const bool linked = entry.next != kNone;
    if (linked != (entry.references == 0)) fail(block, linked ? "is in use and in the free list" : "is lost");
    if (linked && (blocks_[entry.next].previous != block || blocks_[entry.previous].next != block)) {
      fail(block, "has broken free-list links");
    }
    unused += linked ? 1 : 0;
  }
  if (unused != free_count_ || static_cast<int64_t>(free_order().size()) != free_count_) {
    throw CheckFailure("block pool: the free list and its count differ");
  }
}

std::vector<int32_t> BlockPool::free_order() const {
  std::vector<int32_t> order;
  for (int32_t block = blocks_[sentinel()].next; block != sentinel(); block = blocks_[block].next) {
    if (static_cast<int64_t>(order.size()) > size()) throw CheckFailure("block pool: the free list has a cycle");
    order.push_back(block);
  }
  return order;
}

}  // namespace quire
