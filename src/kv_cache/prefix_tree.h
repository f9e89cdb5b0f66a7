// The prefix cache: a tree of full blocks, matched exactly.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace quire {

/// A node stands for one full block of tokens after its parent's; a root for the opaque bytes (adapter, salt) that a
/// whole chain shares. A node holds one cached block for each KV group, or -1 where that group has none. A hash only
/// finds candidates: parent and tokens are compared, so that no collision can hand one prompt's pages to another. A
/// node lives while it has a block, a child or a pin.
class PrefixTree {
 public:
  static constexpr int32_t kNone = -1;
  using Hash = uint64_t (*)(std::span<const int32_t> tokens, uint64_t seed);

  /// `hash` is replaced in tests, to make everything collide.
  PrefixTree(int64_t block_size, int group_count, Hash hash = nullptr);

  /// The root of a chain, made if absent. It comes pinned once.
  int32_t pin_root(std::string_view extra);

  /// The child of `parent` that holds exactly these block_size tokens, or kNone.
  int32_t find(int32_t parent, std::span<const int32_t> tokens) const;
  /// The same, made if absent (then without blocks).
  int32_t find_or_add(int32_t parent, std::span<const int32_t> tokens);

  /// A pin keeps the node (and so its ancestors) alive; a sequence pins the last node of its chain.
  void pin(int32_t node) { ++nodes_[node].pins; }
  void unpin(int32_t node);

  int32_t block(int32_t node, int group) const { return blocks_[index(node, group)]; }
  void set_block(int32_t node, int group, int32_t block) { blocks_[index(node, group)] = block; }
  /// Forgets the group's block; the node goes when nothing keeps it.
  void clear_block(int32_t node, int group);

  int32_t parent(int32_t node) const { return nodes_[node].parent; }
  int32_t pins(int32_t node) const { return nodes_[node].pins; }
  bool alive(int32_t node) const { return nodes_[node].alive; }
  int64_t live_nodes() const { return live_nodes_; }
  int32_t slots() const { return static_cast<int32_t>(nodes_.size()); }  ///< node ids are below this

  /// Throws CheckFailure when links, counts or the index are wrong. O(nodes).
  void check_integrity() const;

 private:
  struct Node {
    uint64_t hash = 0;
    int32_t parent = kNone;
    int32_t children = 0;
    int32_t pins = 0;
    int32_t next_in_bucket = kNone;
    bool alive = false;
  };

  size_t index(int32_t node, int group) const { return static_cast<size_t>(node) * group_count_ + group; }
  std::span<const int32_t> tokens_of(int32_t node) const;
  uint64_t hash_of(int32_t parent, std::span<const int32_t> tokens) const;
  int32_t lookup(uint64_t hash, int32_t parent, std::span<const int32_t> tokens) const;
  int32_t make_node(int32_t parent);
  void collect(int32_t node);
  void remove(int32_t node);
  void add_to_bucket(int32_t node);
  void grow_buckets();

  const int64_t block_size_;
  const int group_count_;
  const Hash hash_;
  const uint64_t secret_;  ///< keeps callers from choosing tokens that collide; changes no result
  std::vector<Node> nodes_;
  std::vector<int32_t> free_nodes_;
  std::vector<int32_t> tokens_;   ///< [node, block_size]
  std::vector<int32_t> blocks_;   ///< [node, group]
  std::vector<int32_t> buckets_;  ///< a power of two
  std::unordered_map<std::string, int32_t> roots_;
  std::unordered_map<int32_t, std::string> root_keys_;
  int64_t live_nodes_ = 0;
};

}  // namespace quire
