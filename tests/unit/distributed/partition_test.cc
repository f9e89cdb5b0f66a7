#include "distributed/partition.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Partition, SharesAreAdjacentEvenAndWholeForAnyCount) {
  for (int64_t total : {0, 1, 7, 16, 100, 1536, 49152}) {
    for (int64_t multiple : {1, 16, 64}) {
      for (int size = 1; size <= 9; ++size) {
        int64_t next = 0;
        int64_t smallest = total + multiple, largest = 0;
        for (int rank = 0; rank < size; ++rank) {
          const Range range = partition(total, {rank, size}, multiple);
          EXPECT_EQ(range.begin, next);
          if (range.end != total) {
            EXPECT_EQ(range.size() % multiple, 0);
          }
          smallest = std::min(smallest, range.size());
          largest = std::max(largest, range.size());
          next = range.end;
        }
        EXPECT_EQ(next, total);
        EXPECT_LE(largest - smallest, 2 * multiple - 1) << total << " over " << size << " in " << multiple;
      }
    }
  }
}

TEST(PartitionHeads, NineQueryHeadsOnTwoRanksAreFiveAndFour) {
  const auto first = partition_heads(9, 3, {0, 2});
  const auto second = partition_heads(9, 3, {1, 2});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->query_heads, (Range{0, 5}));
  EXPECT_EQ(first->kv_heads, (Range{0, 2}));
  EXPECT_EQ(first->kv_head_of_query, (std::vector<int32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(second->query_heads, (Range{5, 9}));
  EXPECT_EQ(second->kv_heads, (Range{1, 3}));
  EXPECT_EQ(second->kv_head_of_query, (std::vector<int32_t>{0, 1, 1, 1}));
}

TEST(PartitionHeads, FewerKvHeadsThanRanksAreHeldByEachRankThatReadsThem) {
  for (int rank = 0; rank < 4; ++rank) {
    const auto heads = partition_heads(8, 1, {rank, 4});
    ASSERT_TRUE(heads.ok());
    EXPECT_EQ(heads->kv_heads, (Range{0, 1}));
    EXPECT_EQ(heads->query_heads.size(), 2);
  }
}

TEST(PartitionHeads, EveryQueryHeadReadsItsOwnKvHead) {
  for (int size = 1; size <= 12; ++size) {
    for (int rank = 0; rank < size; ++rank) {
      const auto heads = partition_heads(12, 4, {rank, size});
      ASSERT_TRUE(heads.ok());
      for (int64_t i = 0; i < heads->query_heads.size(); ++i) {
        EXPECT_EQ(heads->kv_heads.begin + heads->kv_head_of_query[i], (heads->query_heads.begin + i) / 3);
      }
    }
  }
}

TEST(PartitionHeads, RefusesMoreRanksThanHeadsWithTheSizesThatFit) {
  const auto heads = partition_heads(4, 2, {0, 5});
  ASSERT_FALSE(heads.ok());
  EXPECT_NE(heads.error().message.find("1 to 4"), std::string::npos) << heads.error().message;
}

TEST(PartitionVocab, PadsAndCoversAnyVocabulary) {
  for (int64_t vocab : {1, 511, 1003, 49152}) {
    for (int size = 1; size <= 5; ++size) {
      int64_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const VocabPartition part = partition_vocab(vocab, {rank, size});
        EXPECT_EQ(part.rows % 64, 0);
        EXPECT_LE(part.range.size(), part.rows);
        EXPECT_EQ(part.range.begin, next);
        next = part.range.end;
      }
      EXPECT_EQ(next, vocab);
    }
  }
}

TEST(Partition, LayersGoToStagesAsVllmDividesThem) {
  const auto sizes = [](int64_t layers, int stages) {
    std::vector<int64_t> sizes;
    int64_t next = 0;
    for (int stage = 0; stage < stages; ++stage) {
      const Range range = partition_layers(layers, {stage, stages});
      EXPECT_EQ(range.begin, next);
      next = range.end;
      sizes.push_back(range.size());
    }
    EXPECT_EQ(next, layers);
    return sizes;
  };
  EXPECT_EQ(sizes(30, 1), (std::vector<int64_t>{30}));
  EXPECT_EQ(sizes(30, 2), (std::vector<int64_t>{15, 15}));
  EXPECT_EQ(sizes(3, 2), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(sizes(30, 4), (std::vector<int64_t>{7, 8, 8, 7}));
  EXPECT_EQ(sizes(7, 4), (std::vector<int64_t>{2, 2, 2, 1}));
}

TEST(Partition, LayersGoToStagesAsTheyAreGiven) {
  const std::vector<int64_t> given = {5, 1, 6};
  EXPECT_EQ(partition_layers(12, {0, 3}, given), (Range{0, 5}));
  EXPECT_EQ(partition_layers(12, {1, 3}, given), (Range{5, 6}));
  EXPECT_EQ(partition_layers(12, {2, 3}, given), (Range{6, 12}));
}

TEST(Partition, SmallDimensionsAreDividedBySingleUnits) {
  EXPECT_EQ(partition_multiple(160, 4, 16), 16);
  EXPECT_EQ(partition_multiple(33, 3, 16), 16);
  EXPECT_EQ(partition_multiple(32, 3, 16), 1);
}

}  // namespace
}  // namespace quire
