#include "cli/bench/random_prompts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace quire::cli {
namespace {

const PromptShape kShape = {.input_len = 20, .output_len = 5, .lowest_id = 100, .highest_id = 199};

// The reference values of SplitMix64 with seed 1234567.
TEST(RandomSource, IsSplitMix64) {
  RandomSource random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
}

TEST(RandomPrompts, ASeedDeterminesThem) {
  const auto a = random_prompts(8, kShape, 1);
  const auto b = random_prompts(8, kShape, 1);
  const auto c = random_prompts(8, kShape, 2);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].ids, b[i].ids);
    EXPECT_NE(a[i].ids, c[i].ids);
  }
  EXPECT_NE(a[0].ids, a[1].ids);
}

TEST(RandomPrompts, LengthsAndIdsLieWhereTheyShould) {
  PromptShape shape = kShape;
  shape.range_ratio = 0.5;
  int64_t shortest = 1000;
  int64_t longest = 0;
  for (const RandomPrompt& prompt : random_prompts(500, shape, 3)) {
    const auto length = static_cast<int64_t>(prompt.ids.size());
    shortest = std::min(shortest, length);
    longest = std::max(longest, length);
    EXPECT_GE(*std::min_element(prompt.ids.begin(), prompt.ids.end()), 100);
    EXPECT_LE(*std::max_element(prompt.ids.begin(), prompt.ids.end()), 199);
    EXPECT_GE(prompt.output_len, 2);
    EXPECT_LE(prompt.output_len, 8);
  }
  EXPECT_EQ(shortest, 10);
  EXPECT_EQ(longest, 30);
}

TEST(RandomPrompts, ThePrefixIsShared) {
  PromptShape shape = kShape;
  shape.prefix_len = 12;
  const auto prompts = random_prompts(2, shape, 4);
  EXPECT_EQ(prompts[0].ids.size(), 32u);
  EXPECT_TRUE(std::equal(prompts[0].ids.begin(), prompts[0].ids.begin() + 12, prompts[1].ids.begin()));
  EXPECT_NE(prompts[0].ids, prompts[1].ids);
}

TEST(RandomPrompts, WordsAreAsManyAsIds) {
  const auto prompts = random_prompts(1, kShape, 5);
  const std::string text = words_for(prompts[0]);
  EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 19);
}

TEST(RandomSource, GapsHaveMeanOne) {
  for (const double shape : {0.5, 1.0, 4.0}) {
    RandomSource random(9);
    double sum = 0;
    double squares = 0;
    constexpr int kCount = 20000;
    for (int i = 0; i < kCount; ++i) {
      const double gap = random.gamma(shape);
      sum += gap;
      squares += gap * gap;
    }
    const double mean = sum / kCount;
    EXPECT_NEAR(mean, 1, 0.05) << shape;
    EXPECT_NEAR(squares / kCount - mean * mean, 1 / shape, 0.15 / shape) << shape;
  }
}

}  // namespace
}  // namespace quire::cli
