// KvCacheManager::check_integrity: the sequences' tables, the pools and the prefix tree must tell the same story.
#include <string>

#include "base/check.h"
#include "engine/kv_cache_manager.h"

namespace quire {
namespace {

[[noreturn]] void fail(const std::string& what) { throw CheckFailure("KV cache: " + what); }

void check_table(const std::vector<int32_t>& table, int64_t live_begin, std::vector<int32_t>& references) {
  for (size_t i = 0; i < table.size(); ++i) {
    const bool live = static_cast<int64_t>(i) >= live_begin;
    if (live != (table[i] != BlockPool::kNone))
      fail("entry " + std::to_string(i) + " of a block table should be the other way");
    if (live) ++references[table[i]];
  }
}

}  // namespace

void KvCacheManager::check_integrity(std::span<const SequenceBlocks* const> live) const {
  std::vector<int32_t> pins(tree_.slots(), 0);
  for (const SequenceBlocks* sequence : live) {
    if (sequence->last_node != PrefixTree::kNone) ++pins[sequence->last_node];
  }
  for (size_t group = 0; group < groups_.size(); ++group) {
    std::vector<int32_t> references(pools_[group].size(), 0);
    for (const SequenceBlocks* sequence : live) {
      if (sequence->tables.empty()) continue;
      check_table(sequence->tables[group], sequence->live_begin[group], references);
    }
    pools_[group].check_integrity(references);
  }
  tree_.check_integrity();
  for (int32_t node = 0; node < tree_.slots(); ++node) {
    if (tree_.alive(node) && tree_.pins(node) != pins[node]) fail("a prefix node's pins and its sequences differ");
  }
  check_tree_against_pools();
}

void KvCacheManager::check_tree_against_pools() const {
  for (size_t group = 0; group < groups_.size(); ++group) {
    const int index = static_cast<int>(group);
    int64_t owned = 0;
    for (int32_t block = 0; block < pools_[group].size(); ++block) {
      const int32_t owner = pools_[group].owner(block);
      if (owner == BlockPool::kNone) continue;
      ++owned;
      if (!tree_.alive(owner) || tree_.block(owner, index) != block) fail("a block's owner does not know it");
    }
    for (int32_t node = 0; node < tree_.slots(); ++node) {
      if (!tree_.alive(node) || tree_.block(node, index) == PrefixTree::kNone) continue;
      --owned;
      const int32_t parent = tree_.parent(node);
      const bool at_root = tree_.parent(parent) == PrefixTree::kNone;
      if (!groups_[group].sliding && !at_root && tree_.block(parent, index) == PrefixTree::kNone) {
        fail("a block was evicted before one that hangs on it");
      }
    }
    if (owned != 0) fail("prefix nodes and owned blocks differ in number");
  }
}

}  // namespace quire
