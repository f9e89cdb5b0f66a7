#include "kv_cache/prefix_tree.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <random>

#include "base/check.h"

namespace quire {
namespace {

constexpr size_t kFirstBuckets = 64;

uint64_t xxh3(std::span<const int32_t> tokens, uint64_t seed) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), seed);
}

uint64_t draw_secret() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace

PrefixTree::PrefixTree(int64_t block_size, int group_count, Hash hash)
    : block_size_(block_size),
      group_count_(group_count),
      hash_(hash != nullptr ? hash : xxh3),
      secret_(draw_secret()),
      buckets_(kFirstBuckets, kNone) {
  QUIRE_CHECK(block_size > 0 && group_count > 0);
}

std::span<const int32_t> PrefixTree::tokens_of(int32_t node) const {
  return {tokens_.data() + static_cast<size_t>(node) * block_size_, static_cast<size_t>(block_size_)};
}

uint64_t PrefixTree::hash_of(int32_t parent, std::span<const int32_t> tokens) const {
  return hash_(tokens, secret_ ^ static_cast<uint64_t>(parent));
}

int32_t PrefixTree::lookup(uint64_t hash, int32_t parent, std::span<const int32_t> tokens) const {
  int32_t node = buckets_[hash & (buckets_.size() - 1)];
  for (; node != kNone; node = nodes_[node].next_in_bucket) {
    const Node& entry = nodes_[node];
    if (entry.hash == hash && entry.parent == parent && std::ranges::equal(tokens_of(node), tokens)) return node;
  }
  return kNone;
}

int32_t PrefixTree::find(int32_t parent, std::span<const int32_t> tokens) const {
  QUIRE_CHECK(static_cast<int64_t>(tokens.size()) == block_size_);
  return lookup(hash_of(parent, tokens), parent, tokens);
}

int32_t PrefixTree::find_or_add(int32_t parent, std::span<const int32_t> tokens) {
  QUIRE_CHECK(static_cast<int64_t>(tokens.size()) == block_size_);
  QUIRE_CHECK(nodes_[parent].alive);
  const uint64_t hash = hash_of(parent, tokens);
  if (const int32_t found = lookup(hash, parent, tokens); found != kNone) return found;
  const int32_t node = make_node(parent);
  nodes_[node].hash = hash;
  std::ranges::copy(tokens, tokens_.begin() + static_cast<int64_t>(node) * block_size_);
  ++nodes_[parent].children;
  if (static_cast<size_t>(live_nodes_) > buckets_.size()) grow_buckets();
  add_to_bucket(node);
  return node;
}

int32_t PrefixTree::pin_root(std::string_view extra) {
  const auto [entry, added] = roots_.try_emplace(std::string(extra), kNone);
  if (added) {
    entry->second = make_node(kNone);
    root_keys_.emplace(entry->second, extra);
  }
  pin(entry->second);
  return entry->second;
}

int32_t PrefixTree::make_node(int32_t parent) {
  int32_t node = static_cast<int32_t>(nodes_.size());
  if (free_nodes_.empty()) {
    nodes_.emplace_back();
    tokens_.resize(tokens_.size() + block_size_);
    blocks_.resize(blocks_.size() + group_count_);
  } else {
    node = free_nodes_.back();
    free_nodes_.pop_back();
  }
  nodes_[node] = Node{.parent = parent, .alive = true};
  for (int group = 0; group < group_count_; ++group) set_block(node, group, kNone);
  ++live_nodes_;
  return node;
}

void PrefixTree::unpin(int32_t node) {
  QUIRE_CHECK(nodes_[node].pins > 0);
  --nodes_[node].pins;
  collect(node);
}

void PrefixTree::clear_block(int32_t node, int group) {
  QUIRE_CHECK(nodes_[node].alive);
  set_block(node, group, kNone);
  collect(node);
}

void PrefixTree::collect(int32_t node) {
  while (node != kNone && nodes_[node].children == 0 && nodes_[node].pins == 0) {
    for (int group = 0; group < group_count_; ++group) {
      if (block(node, group) != kNone) return;
    }
    const int32_t parent = nodes_[node].parent;
    remove(node);
    if (parent != kNone) --nodes_[parent].children;
    node = parent;
  }
}

void PrefixTree::remove(int32_t node) {
  if (nodes_[node].parent == kNone) {
    const auto key = root_keys_.find(node);
    roots_.erase(key->second);
    root_keys_.erase(key);
  } else {
    int32_t* link = &buckets_[nodes_[node].hash & (buckets_.size() - 1)];
    while (*link != node) link = &nodes_[*link].next_in_bucket;
    *link = nodes_[node].next_in_bucket;
  }
  nodes_[node].alive = false;
  free_nodes_.push_back(node);
  --live_nodes_;
}

void PrefixTree::add_to_bucket(int32_t node) {
  int32_t& bucket = buckets_[nodes_[node].hash & (buckets_.size() - 1)];
  nodes_[node].next_in_bucket = bucket;
  bucket = node;
}

void PrefixTree::grow_buckets() {
  std::vector<int32_t> linked;
  linked.reserve(live_nodes_);
  for (int32_t node : buckets_) {
    for (; node != kNone; node = nodes_[node].next_in_bucket) linked.push_back(node);
  }
  buckets_.assign(buckets_.size() * 2, kNone);
  for (const int32_t node : linked) add_to_bucket(node);
}

void PrefixTree::check_integrity() const {
  std::vector<int32_t> children(nodes_.size(), 0);
  int64_t live = 0;
  for (int32_t node = 0; node < slots(); ++node) {
    const Node& entry = nodes_[node];
    if (!entry.alive) continue;
    ++live;
    if (entry.parent == kNone) {
      if (!root_keys_.contains(node)) throw CheckFailure("prefix tree: a root is not in the index");
      continue;
    }
    if (!nodes_[entry.parent].alive) throw CheckFailure("prefix tree: a node outlives its parent");
    ++children[entry.parent];
    if (find(entry.parent, tokens_of(node)) != node) throw CheckFailure("prefix tree: a node is not in the index");
  }
  if (live != live_nodes_ || live + free_nodes_.size() != nodes_.size() || roots_.size() != root_keys_.size()) {
    throw CheckFailure("prefix tree: the number of nodes is wrong");
  }
  for (int32_t node = 0; node < slots(); ++node) {
    if (!nodes_[node].alive) continue;
    if (nodes_[node].children != children[node]) throw CheckFailure("prefix tree: a count of children is wrong");
    bool kept = nodes_[node].children > 0 || nodes_[node].pins > 0;
    for (int group = 0; group < group_count_; ++group) kept = kept || block(node, group) != kNone;
    if (!kept) throw CheckFailure("prefix tree: a node that nothing keeps is still there");
  }
}

}  // namespace quire
