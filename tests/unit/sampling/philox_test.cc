#include "sampling/philox.h"

#include <gtest/gtest.h>

#include "sampling/token_noise.h"

namespace quire {
namespace {

// The known answers that Random123 publishes for philox4x32 with 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(TokenNoise, EachPartOfTheKeyMatters) {
  const uint32_t reference = TokenNoise(7, 0, 3).bits(10);
  EXPECT_EQ(TokenNoise(7, 0, 3).bits(10), reference);
  EXPECT_NE(TokenNoise(8, 0, 3).bits(10), reference);
  EXPECT_NE(TokenNoise(7 | (uint64_t{1} << 40), 0, 3).bits(10), reference);
  EXPECT_NE(TokenNoise(7, 1, 3).bits(10), reference);
  EXPECT_NE(TokenNoise(7, 0, 4).bits(10), reference);
  EXPECT_NE(TokenNoise(7, 0, 3).bits(11), reference);
  EXPECT_EQ(TokenNoise(7, 0, 3).block(2)[2], reference);
}

TEST(TokenNoise, BoundHoldsForAllMagnitudes) {
  const auto check = [](uint32_t bits) {
    const double gumbel = TokenNoise::gumbel(bits);
    EXPECT_TRUE(std::isfinite(gumbel));
    EXPECT_LE(gumbel, TokenNoise::gumbel_bound(bits)) << bits;
    EXPECT_LE(gumbel, TokenNoise::kLargestGumbel);
  };
  check(0);
  check(0xffffffff);
  for (int shift = 0; shift < 32; ++shift) {
    for (uint32_t offset : {0u, 1u, 0xffffffffu}) check((1u << shift) + offset);
  }
  for (int32_t token = 0; token < 10000; ++token) check(TokenNoise(1, 0, 0).bits(token));
}

// A Gumbel variable has mean 0.5772 and variance pi^2 / 6.
TEST(TokenNoise, HasTheMomentsOfGumbel) {
  const int count = 200000;
  double sum = 0, squares = 0;
  for (int32_t token = 0; token < count; ++token) {
    const double gumbel = TokenNoise::gumbel(TokenNoise(99, 0, 12).bits(token));
    sum += gumbel;
    squares += gumbel * gumbel;
  }
  const double mean = sum / count;
  EXPECT_NEAR(mean, 0.57722, 0.012);
  EXPECT_NEAR(squares / count - mean * mean, 1.644934, 0.03);
}

}  // namespace
}  // namespace quire
