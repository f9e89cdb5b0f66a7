#include <gtest/gtest.h>

#include "cli/bench/statistics.h"

namespace quire::cli {
namespace {

// Expected values from numpy.percentile, mean and std.
TEST(Statistics, PercentilesInterpolateAsNumpyDoes) {
  const std::vector<double> values = {15, 20, 35, 40, 50};
  EXPECT_DOUBLE_EQ(percentile(values, 0), 15);
  EXPECT_DOUBLE_EQ(percentile(values, 40), 29);
  EXPECT_DOUBLE_EQ(percentile(values, 50), 35);
  EXPECT_DOUBLE_EQ(percentile(values, 99), 49.6);
  EXPECT_DOUBLE_EQ(percentile(values, 100), 50);
  EXPECT_DOUBLE_EQ(percentile({3, 1, 2, 4}, 50), 2.5);
}

TEST(Statistics, FewValues) {
  EXPECT_DOUBLE_EQ(percentile({}, 99), 0);
  EXPECT_DOUBLE_EQ(percentile({7}, 99), 7);
  EXPECT_DOUBLE_EQ(summarize({}).mean, 0);
}

TEST(Statistics, MeanMedianAndDeviation) {
  const Summary summary = summarize({2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_DOUBLE_EQ(summary.mean, 5);
  EXPECT_DOUBLE_EQ(summary.median, 4.5);
  EXPECT_DOUBLE_EQ(summary.standard_deviation, 2);
}

}  // namespace
}  // namespace quire::cli
