#include "engine/kv_cache_manager.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/check.h"

namespace quire {
namespace {

int64_t blocks_for(int64_t tokens, int64_t block_size) { return (tokens + block_size - 1) / block_size; }

}  // namespace

KvCacheManager::KvCacheManager(const std::vector<KvCacheGroup>& groups, const std::vector<int64_t>& blocks_per_group,
                               int64_t block_size, bool enable_prefix_caching, PrefixTree::Hash hash)
    : block_size_(block_size),
      caching_(enable_prefix_caching),
      tree_(block_size, static_cast<int>(groups.size()), hash) {
  QUIRE_CHECK(!groups.empty() && groups.size() == blocks_per_group.size());
  for (size_t group = 0; group < groups.size(); ++group) {
    const KvCacheSpec& spec = groups[group].spec;
    const bool sliding = spec.kind == KvCacheKind::kSlidingWindow && spec.window > 0;
    groups_.push_back({sliding, spec.window});
    pools_.emplace_back(blocks_per_group[group]);
  }
}

/// The first block that a query at `position` reads in this group.
int64_t KvCacheManager::first_needed_block(int group, int64_t position) const {
  if (!groups_[group].sliding) return 0;
  return std::max<int64_t>(0, position - groups_[group].window + 1) / block_size_;
}

bool KvCacheManager::has_full_attention_blocks(int32_t node) const {
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (!groups_[group].sliding && tree_.block(node, static_cast<int>(group)) == PrefixTree::kNone) return false;
  }
  return true;
}

void KvCacheManager::walk_cached_chain(std::span<const int32_t> tokens, int32_t root) {
  chain_.clear();
  const int64_t limit = (static_cast<int64_t>(tokens.size()) - 1) / block_size_;
  int32_t node = root;
  for (int64_t i = 0; i < limit; ++i) {
    node = tree_.find(node, tokens.subspan(i * block_size_, block_size_));
    if (node == PrefixTree::kNone || !has_full_attention_blocks(node)) return;
    chain_.push_back(node);
  }
}

/// The longest start of chain_ whose window tails are all cached.
int64_t KvCacheManager::usable_chain_length() const {
  int64_t usable = static_cast<int64_t>(chain_.size());
  for (bool settled = false; !settled;) {
    settled = true;
    for (size_t group = 0; group < groups_.size(); ++group) {
      if (!groups_[group].sliding) continue;
      const int index = static_cast<int>(group);
      const int64_t first = first_needed_block(index, usable * block_size_);
      for (int64_t i = usable - 1; i >= first; --i) {
        if (tree_.block(chain_[i], index) != PrefixTree::kNone) continue;
        usable = i;
        settled = false;
        break;
      }
    }
  }
  return usable;
}

int64_t KvCacheManager::open(SequenceBlocks& sequence, std::span<const int32_t> tokens, std::string_view extra,
                             bool read_cache) {
  QUIRE_CHECK(!tokens.empty() && sequence.last_node == PrefixTree::kNone);
  sequence.tables.resize(groups_.size());
  sequence.live_begin.assign(groups_.size(), 0);
  sequence.registered = 0;
  if (!caching_) return 0;
  sequence.last_node = tree_.pin_root(extra);
  if (!read_cache) return 0;
  walk_cached_chain(tokens, sequence.last_node);
  const int64_t hit = usable_chain_length();
  for (size_t group = 0; group < groups_.size(); ++group) {
    const int64_t first = first_needed_block(static_cast<int>(group), hit * block_size_);
    sequence.live_begin[group] = std::min(first, hit);
    for (int64_t i = 0; i < hit; ++i) {
      const int32_t block = i < first ? BlockPool::kNone : tree_.block(chain_[i], static_cast<int>(group));
      if (block != BlockPool::kNone) pools_[group].share(block);
      sequence.tables[group].push_back(block);
    }
  }
  if (hit > 0) move_last_node(sequence, chain_[hit - 1]);
  sequence.registered = hit;
  return hit * block_size_;
}

void KvCacheManager::move_last_node(SequenceBlocks& sequence, int32_t node) {
  tree_.pin(node);
  tree_.unpin(sequence.last_node);
  sequence.last_node = node;
}

bool KvCacheManager::grow(SequenceBlocks& sequence, int64_t tokens, int64_t chunk_end, int64_t spare) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    const int64_t wanted = blocks_for(groups_[group].sliding ? chunk_end : tokens, block_size_);
    const int64_t missing = wanted - static_cast<int64_t>(sequence.tables[group].size());
    if (missing > 0 && missing + spare > pools_[group].free_count()) return false;
  }
  for (size_t group = 0; group < groups_.size(); ++group) {
    const int64_t wanted = blocks_for(groups_[group].sliding ? chunk_end : tokens, block_size_);
    std::vector<int32_t>& table = sequence.tables[group];
    while (static_cast<int64_t>(table.size()) < wanted) table.push_back(take_block(static_cast<int>(group)));
  }
  return true;
}

int32_t KvCacheManager::take_block(int group) {
  const BlockPool::Taken taken = pools_[group].take();
  if (taken.evicted_owner != BlockPool::kNone) tree_.clear_block(taken.evicted_owner, group);
  return taken.block;
}

bool KvCacheManager::commit(SequenceBlocks& sequence, std::span<const int32_t> tokens, int64_t computed) {
  QUIRE_CHECK(computed <= static_cast<int64_t>(tokens.size()));
  while (caching_ && (sequence.registered + 1) * block_size_ <= computed) {
    register_block(sequence, tokens.subspan(sequence.registered * block_size_, block_size_));
  }
  return free_outside_window(sequence, computed);
}

void KvCacheManager::register_block(SequenceBlocks& sequence, std::span<const int32_t> block_tokens) {
  const int32_t node = tree_.find_or_add(sequence.last_node, block_tokens);
  for (size_t group = 0; group < groups_.size(); ++group) {
    BlockPool& pool = pools_[group];
    int32_t& own = sequence.tables[group][sequence.registered];
    QUIRE_CHECK(own != BlockPool::kNone);
    const int32_t cached = tree_.block(node, static_cast<int>(group));
    if (cached == BlockPool::kNone) {
      tree_.set_block(node, static_cast<int>(group), own);
      pool.set_owner(own, node);
    } else if (cached != own) {
      // Equal tokens at equal positions have bit-equal pages. Sharing them keeps one invariant simple: whoever holds a
      // block holds its ancestors too.
      pool.share(cached);
      pool.release(own);
      own = cached;
    }
  }
  move_last_node(sequence, node);
  ++sequence.registered;
}

bool KvCacheManager::free_outside_window(SequenceBlocks& sequence, int64_t computed) {
  bool freed = false;
  for (size_t group = 0; group < groups_.size(); ++group) {
    const int64_t first = first_needed_block(static_cast<int>(group), computed);
    for (int64_t& begin = sequence.live_begin[group]; begin < first; ++begin) {
      pools_[group].release(sequence.tables[group][begin]);
      sequence.tables[group][begin] = BlockPool::kNone;
      freed = true;
    }
  }
  return freed;
}

void KvCacheManager::close(SequenceBlocks& sequence) {
  for (size_t group = 0; group < sequence.tables.size(); ++group) {
    std::vector<int32_t>& table = sequence.tables[group];
    for (; !table.empty(); table.pop_back()) {
      if (table.back() != BlockPool::kNone) pools_[group].release(table.back());
    }
    sequence.live_begin[group] = 0;
  }
  if (sequence.last_node != PrefixTree::kNone) tree_.unpin(sequence.last_node);
  sequence.last_node = PrefixTree::kNone;
  sequence.registered = 0;
}

bool KvCacheManager::reset_prefix_cache() {
  bool all_free = true;
  for (size_t group = 0; group < groups_.size(); ++group) {
    BlockPool& pool = pools_[group];
    all_free = all_free && pool.used_count() == 0;
    for (const int32_t block : pool.free_order()) {
      const int32_t owner = pool.owner(block);
      if (owner == BlockPool::kNone) continue;
      pool.set_owner(block, BlockPool::kNone);
      tree_.clear_block(owner, static_cast<int>(group));
    }
  }
  return all_free;
}

double KvCacheManager::usage() const {
  double fullest = 0;
  for (const BlockPool& pool : pools_) {
    fullest = std::max(fullest, static_cast<double>(pool.used_count()) / static_cast<double>(pool.size()));
  }
  return fullest;
}

int64_t longest_sequence(const std::vector<KvCacheGroup>& groups, const std::vector<int64_t>& blocks_per_group,
                         int64_t block_size, int64_t chunk) {
  int64_t longest = std::numeric_limits<int64_t>::max();
  for (size_t group = 0; group < groups.size(); ++group) {
    const KvCacheSpec& spec = groups[group].spec;
    const bool sliding = spec.kind == KvCacheKind::kSlidingWindow && spec.window > 0;
    // A window's positions and a chunk's can both begin inside a block, hence one block more.
    const int64_t enough = sliding ? blocks_for(spec.window - 1 + chunk, block_size) + 1 : 0;
    if (sliding && blocks_per_group[group] >= enough) continue;
    longest = std::min(longest, blocks_per_group[group] * block_size);
  }
  return longest;
}

}  // namespace quire
