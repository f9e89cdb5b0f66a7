#include "kv_cache/prefix_tree.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

uint64_t everything_collides(std::span<const int32_t>, uint64_t) { return 42; }

TEST(PrefixTree, PFX_01_CollisionsDoNotMatch) {
  PrefixTree tree(2, 1, everything_collides);
  const int32_t root = tree.pin_root("");
  const int32_t other_root = tree.pin_root("salt");
  const std::vector<int32_t> ab = {1, 2}, ba = {2, 1};
  const int32_t first = tree.find_or_add(root, ab);
  tree.set_block(first, 0, 5);
  EXPECT_EQ(tree.find(root, ba), PrefixTree::kNone);
  EXPECT_EQ(tree.find(other_root, ab), PrefixTree::kNone);
  EXPECT_EQ(tree.find(first, ab), PrefixTree::kNone);
  EXPECT_EQ(tree.find(root, ab), first);
  EXPECT_NE(tree.find_or_add(first, ab), first);
}

TEST(PrefixTree, NodesGoWhenNothingKeepsThem) {
  PrefixTree tree(2, 2);
  const int32_t root = tree.pin_root("x");
  const std::vector<int32_t> tokens = {1, 2};
  const int32_t parent = tree.find_or_add(root, tokens);
  const int32_t child = tree.find_or_add(parent, tokens);
  tree.set_block(child, 0, 1);
  tree.set_block(child, 1, 2);
  tree.unpin(root);
  tree.check_integrity();
  EXPECT_EQ(tree.live_nodes(), 3);
  tree.clear_block(child, 0);
  EXPECT_EQ(tree.live_nodes(), 3);
  tree.clear_block(child, 1);
  EXPECT_EQ(tree.live_nodes(), 0) << "the last block takes its bare ancestors and the root along";
  tree.check_integrity();
}

TEST(PrefixTree, ManyNodesStayFindable) {
  PrefixTree tree(1, 1);
  const int32_t root = tree.pin_root("");
  for (int32_t token = 0; token < 1000; ++token) {
    tree.set_block(tree.find_or_add(root, std::vector<int32_t>{token}), 0, token);
  }
  tree.check_integrity();
  for (int32_t token = 0; token < 1000; ++token) {
    EXPECT_EQ(tree.block(tree.find(root, std::vector<int32_t>{token}), 0), token);
  }
}

}  // namespace
}  // namespace quire
