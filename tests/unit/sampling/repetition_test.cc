#include "sampling/repetition.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace quire {
namespace {

bool plainly(const std::vector<int32_t>& output, const RepetitionDetection& detection) {
  const auto size = static_cast<int64_t>(output.size());
  for (int64_t pattern = detection.min_pattern_size; pattern <= detection.max_pattern_size; ++pattern) {
    if (pattern * detection.min_count > size) return false;
    bool same = true;
    for (int64_t i = size - pattern * detection.min_count; i + pattern < size; ++i)
      same = same && output[static_cast<size_t>(i)] == output[static_cast<size_t>(i + pattern)];
    if (same) return true;
  }
  return false;
}

TEST(Repetition, Cases) {
  EXPECT_TRUE(repeats(std::vector<int32_t>{9, 5, 5, 5}, {1, 1, 3}));
  EXPECT_FALSE(repeats(std::vector<int32_t>{5, 5, 5, 9}, {1, 1, 3}));
  EXPECT_FALSE(repeats(std::vector<int32_t>{5, 5, 5}, {3, 2, 2}));
  EXPECT_TRUE(repeats(std::vector<int32_t>{1, 2, 3, 1, 2, 3}, {3, 2, 2}));
  EXPECT_FALSE(repeats(std::vector<int32_t>{}, {3, 1, 2}));
  EXPECT_TRUE(repeats(std::vector<int32_t>(8, 1), {int64_t{1} << 62, 1, 2}));
  EXPECT_FALSE(repeats(std::vector<int32_t>(8, 1), {4, 1, int64_t{1} << 62}));
}

TEST(Repetition, EqualsThePlainDefinition) {
  std::mt19937 generator(4);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int32_t> output(generator() % 14);
    for (int32_t& token : output) token = static_cast<int32_t>(generator() % 2);
    const auto least = static_cast<int64_t>(1 + generator() % 3);
    const RepetitionDetection detection{least + static_cast<int64_t>(generator() % 4), least,
                                        static_cast<int64_t>(2 + generator() % 3)};
    EXPECT_EQ(repeats(output, detection), plainly(output, detection));
  }
}

}  // namespace
}  // namespace quire
