// Which blocks each sequence holds: finds cached prefixes, allots blocks, registers full ones in the prefix tree, frees
// what leaves a window.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kv_cache/block_pool.h"
#include "kv_cache/kv_cache_spec.h"
#include "kv_cache/prefix_tree.h"

namespace quire {

/// One sequence's blocks. Position p lies in tables[group][p / block_size]; -1 marks a block that has left that group's
/// window.
struct SequenceBlocks {
  std::vector<std::vector<int32_t>> tables;
  std::vector<int64_t> live_begin;        ///< per group: entries before this one are -1
  int64_t registered = 0;                 ///< leading blocks that are in the prefix tree
  int32_t last_node = PrefixTree::kNone;  ///< the node of the last of them, pinned
};

/// A sequence is open()ed once, grows before and is committed after each step, and is closed at its end or when it is
/// preempted.
class KvCacheManager {
 public:
  KvCacheManager(const std::vector<KvCacheGroup>& groups, const std::vector<int64_t>& blocks_per_group,
                 int64_t block_size, bool enable_prefix_caching, PrefixTree::Hash hash = nullptr);

  /// Gives the sequence the longest cached prefix of `tokens`, short of the last token (its logits are needed), and
  /// returns its length in tokens. Nothing is looked up without `read_cache`. `extra` are the bytes that must be equal
  /// for pages to be shared.
  int64_t open(SequenceBlocks& sequence, std::span<const int32_t> tokens, std::string_view extra, bool read_cache);

  /// Makes the tables hold `tokens` positions in full-attention groups and `chunk_end` in sliding ones. False, and
  /// nothing changed, when that would leave fewer than `spare` free blocks in a group that needs some.
  bool grow(SequenceBlocks& sequence, int64_t tokens, int64_t chunk_end, int64_t spare = 0);

  /// After a step: `computed` leading tokens are in the cache. Registers the blocks that became full; where an equal
  /// block is cached already, the sequence moves to that one. Frees blocks wholly outside a window and returns whether
  /// there were any.
  bool commit(SequenceBlocks& sequence, std::span<const int32_t> tokens, int64_t computed);

  /// Gives everything back, the last block first, so that leaves are evicted before what they hang on.
  void close(SequenceBlocks& sequence);

  /// Drops all cached blocks that nobody uses; false when some are in use and remain.
  bool reset_prefix_cache();

  double usage() const;  ///< share of the fullest group's blocks that sequences hold, 0..1
  int64_t block_size() const { return block_size_; }
  bool caching() const { return caching_; }
  int64_t free_blocks(int group) const { return pools_[group].free_count(); }
  int64_t cached_nodes() const { return tree_.live_nodes(); }

  /// `live`: every open sequence. Throws CheckFailure that says what is wrong with counts, lists, the tree or the
  /// tables. O(blocks).
  void check_integrity(std::span<const SequenceBlocks* const> live) const;

 private:
  struct Group {
    bool sliding = false;
    int64_t window = 0;
  };

  int64_t first_needed_block(int group, int64_t position) const;
  void walk_cached_chain(std::span<const int32_t> tokens, int32_t root);
  int64_t usable_chain_length() const;
  bool has_full_attention_blocks(int32_t node) const;
  int32_t take_block(int group);
  void register_block(SequenceBlocks& sequence, std::span<const int32_t> block_tokens);
  bool free_outside_window(SequenceBlocks& sequence, int64_t computed);
  void move_last_node(SequenceBlocks& sequence, int32_t node);
  void check_tree_against_pools() const;

  std::vector<Group> groups_;
  std::vector<BlockPool> pools_;
  const int64_t block_size_;
  const bool caching_;
  PrefixTree tree_;
  std::vector<int32_t> chain_;  ///< scratch of open()
};

/// The longest sequence (prompt and output) that can run alone in a cache of these sizes, with steps of at most `chunk`
/// tokens. INT64_MAX when every group slides and its window fits.
int64_t longest_sequence(const std::vector<KvCacheGroup>& groups, const std::vector<int64_t>& blocks_per_group,
                         int64_t block_size, int64_t chunk);

}  // namespace quire
