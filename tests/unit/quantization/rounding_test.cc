// int8 and int4 weights: how far rounding moves a weight, and that products are those of the rounded weights.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "quantization/linear_method.h"
#include "quantization/round_channel.h"
#include "tensor/workspace.h"

namespace quire {
namespace {

std::vector<float> random_values(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<float> back(const ops::QuantizedChannel& channel, ops::QuantFormat format, size_t count) {
  std::vector<float> values(count);
  ops::dequantize_channel(channel, format, static_cast<int64_t>(count), values.data());
  return values;
}

TEST(RoundingTest, Int8IsWithinHalfAStepOfEachWeight) {
  for (const size_t count : {1, 31, 32, 577}) {
    const std::vector<float> weights = random_values(count, 3);
    const ops::QuantizedChannel channel = round_to_int8(weights);
    const std::vector<float> rounded = back(channel, ops::QuantFormat::kInt8, count);
    for (size_t i = 0; i < count; ++i) EXPECT_NEAR(rounded[i], weights[i], channel.scale * 0.5001f);
  }
}

TEST(RoundingTest, Int4IsWithinAStepOfEachWeightAndNoWorseThanTheWholeRange) {
  for (const size_t count : {1, 31, 32, 577}) {
    const std::vector<float> weights = random_values(count, 4);
    const std::vector<float> rounded = back(round_to_int4(weights), ops::QuantFormat::kQ4Min, count);
    for (size_t begin = 0; begin < count; begin += 32) {
      const size_t end = std::min(count, begin + 32);
      const auto [low, high] = std::minmax_element(weights.begin() + static_cast<std::ptrdiff_t>(begin),
                                                   weights.begin() + static_cast<std::ptrdiff_t>(end));
      const float range = *high - *low;
      float squares = 0;
      for (size_t i = begin; i < end; ++i) {
        EXPECT_NEAR(rounded[i], weights[i], range * 0.141f + 1e-4f);  // a tenth left out, half a step, float16
        squares += (rounded[i] - weights[i]) * (rounded[i] - weights[i]);
      }
      const float half_step = range / 30 + 1e-4f;
      EXPECT_LE(squares, static_cast<float>(end - begin) * half_step * half_step);
    }
  }
}

TEST(RoundingTest, ZeroAndConstantWeightsStayWhatTheyAre) {
  const std::vector<float> zeros(40, 0.0f);
  EXPECT_EQ(back(round_to_int8(zeros), ops::QuantFormat::kInt8, 40), zeros);
  EXPECT_EQ(back(round_to_int4(zeros), ops::QuantFormat::kQ4Min, 40), zeros);
  const std::vector<float> halves(40, -0.5f);
  EXPECT_EQ(back(round_to_int4(halves), ops::QuantFormat::kQ4Min, 40), halves);
}

TEST(RoundingTest, WhatIsNotFiniteIsNotHidden) {
  std::vector<float> weights(32, 1.0f);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    weights[7] = bad;
    EXPECT_TRUE(std::isnan(back(round_to_int8(weights), ops::QuantFormat::kInt8, 32)[0]));
    EXPECT_TRUE(std::isnan(back(round_to_int4(weights), ops::QuantFormat::kQ4Min, 32)[0]));
  }
}

TEST(RoundingTest, MethodsAreFoundByName) {
  EXPECT_EQ(make_rounding_linear_method("int8", DType::kBFloat16)->name(), "int8");
  EXPECT_EQ(make_rounding_linear_method("int4", DType::kBFloat16)->name(), "int4");
  EXPECT_EQ(make_rounding_linear_method("int2", DType::kBFloat16), nullptr);
}

}  // namespace
}  // namespace quire
