#include "tensor/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace quire {
namespace {

TEST(Convert, EveryFloat16ValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float value = float16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float16_to_float(float_to_float16(value))));
    } else {
      EXPECT_EQ(float_to_float16(value), bits);
    }
  }
}

TEST(Convert, EveryBfloat16ValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float value = bfloat16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(value))));
    } else {
      EXPECT_EQ(float_to_bfloat16(value), bits);
    }
  }
}

/// The nearest of the two neighbours, even on a tie, found by search.
template <typename Widen>
uint16_t nearest(float value, Widen widen, uint16_t start) {
  uint16_t best = start;
  for (uint16_t candidate : {static_cast<uint16_t>(start - 1), start, static_cast<uint16_t>(start + 1)}) {
    const double distance = std::abs(static_cast<double>(widen(candidate)) - value);
    const double best_distance = std::abs(static_cast<double>(widen(best)) - value);
    if (distance < best_distance || (distance == best_distance && candidate % 2 == 0)) best = candidate;
  }
  return best;
}

TEST(Convert, RoundsToNearestEven) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponent(-24.0f, 15.0f);
  for (int i = 0; i < 20000; ++i) {
    const float value = std::exp2(exponent(random)) * (1.0f + static_cast<float>(random() % 8192) / 8192.0f);
    EXPECT_EQ(float_to_float16(value), nearest(value, float16_to_float, float_to_float16(value))) << value;
    EXPECT_EQ(float_to_bfloat16(value), nearest(value, bfloat16_to_float, float_to_bfloat16(value))) << value;
  }
  EXPECT_EQ(float_to_float16(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_float16(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_float16(-std::numeric_limits<float>::infinity()), 0xfc00);
}

TEST(Convert, WidensARowOfAStridedView) {
  const std::vector<float> values{1.5f, -2.0f, 3.0f, 4.0f};
  const MatrixView view{values.data(), DType::kFloat32, 2, 1, 2};
  float out = 0;
  row_to_float(view, 1, &out);
  EXPECT_EQ(out, 3.0f);
}

}  // namespace
}  // namespace quire
