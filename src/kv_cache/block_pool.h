// The books of one KV group's blocks: who is in use, who is free, and which free block is given away next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

/// Counts references and keeps the free list. A free block that still has an owner (a node of the prefix tree) is
/// cached: it stays usable until it is taken, least recently released first. Blocks without an owner are taken before
/// any cached one. Every operation is O(1).
class BlockPool {
 public:
  static constexpr int32_t kNone = -1;

  explicit BlockPool(int64_t blocks);

  struct Taken {
    int32_t block = kNone;
    int32_t evicted_owner = kNone;  ///< the node that has just lost this block; kNone when it was not cached
  };

  /// Takes a free block with one reference and no owner. The pool must not be exhausted.
  Taken take();

  /// One more reference; takes a cached block out of the free list.
  void share(int32_t block);

  /// One reference less. With the last one the block becomes free: the newest of the cached ones if it has an owner,
  /// else the next to be taken.
  void release(int32_t block);

  /// The prefix-tree node that this block backs, or kNone.
  int32_t owner(int32_t block) const { return blocks_[block].owner; }
  void set_owner(int32_t block, int32_t owner) { blocks_[block].owner = owner; }

  int32_t references(int32_t block) const { return blocks_[block].references; }
  int64_t size() const { return static_cast<int64_t>(blocks_.size()) - 1; }
  int64_t free_count() const { return free_count_; }
  int64_t used_count() const { return size() - free_count_; }

  /// Compares the books with the references that are known to exist; throws CheckFailure that says what is wrong.
  /// O(size).
  void check_integrity(std::span<const int32_t> expected_references) const;

  /// Free blocks in the order in which take() would give them; for tests and checks.
  std::vector<int32_t> free_order() const;

 private:
  struct Block {
    int32_t references = 0;
    int32_t owner = kNone;
    int32_t previous = kNone;  ///< links of the free list; kNone while in use
    int32_t next = kNone;
  };

  void unlink(int32_t block);
  void link_after(int32_t position, int32_t block);
  int32_t sentinel() const { return static_cast<int32_t>(blocks_.size()) - 1; }

  std::vector<Block> blocks_;  ///< the last entry is the sentinel of the circular free list
  int64_t free_count_ = 0;
};

}  // namespace quire
