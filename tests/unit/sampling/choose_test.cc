// The choice from one row, against plain versions that sort and compute everything.
#include "sampling/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "sampling/random_row.h"

namespace quire {
namespace {

constexpr float kInfiniteLogit = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

int32_t largest(const std::vector<float>& row) {
  int32_t best = 0;
  for (size_t i = 1; i < row.size(); ++i) {
    if (row[i] > row[static_cast<size_t>(best)]) best = static_cast<int32_t>(i);
  }
  return best;
}

/// vLLM's rules by a full sort.
std::vector<int32_t> plain_kept(const std::vector<float>& row, const SamplingParams& params) {
  std::vector<int32_t> order(row.size());
  for (size_t i = 0; i < row.size(); ++i) order[i] = static_cast<int32_t>(i);
  const auto logit = [&](int32_t token) { return row[static_cast<size_t>(token)]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
  if (params.top_k > 0 && params.top_k < static_cast<int64_t>(order.size())) {
    const float kth = logit(order[static_cast<size_t>(params.top_k - 1)]);
    std::erase_if(order, [&](int32_t token) { return logit(token) < kth; });
  }
  // min_p goes by the probability of the most likely token.
  std::erase_if(order, [&](int32_t token) {
    return logit(token) < logit(largest(row)) + effective_temperature(params) * std::log(params.min_p);
  });
  std::vector<double> weights;
  for (int32_t token : order)
    weights.push_back(std::exp((static_cast<double>(logit(token)) - logit(order[0])) / effective_temperature(params)));
  double total = 0, before = 0;
  for (auto it = weights.rbegin(); it != weights.rend(); ++it) total += *it;
  size_t kept = 0;
  for (; kept < order.size() && (params.top_p >= 1.0 || before < params.top_p * total); ++kept) before += weights[kept];
  order.resize(std::max<size_t>(kept, 1));
  std::sort(order.begin(), order.end());
  return order;
}

int32_t plain_choice(const std::vector<float>& row, const SamplingParams& params, const TokenNoise& noise) {
  int32_t best = -1;
  double best_score = 0;
  for (int32_t token : plain_kept(row, params)) {
    const double score =
        (static_cast<double>(row[static_cast<size_t>(token)]) - row[static_cast<size_t>(largest(row))]) *
            (1.0 / effective_temperature(params)) +
        TokenNoise::gumbel(noise.bits(token));
    if (best < 0 || score > best_score) {
      best = token;
      best_score = score;
    }
  }
  return best;
}

int32_t choose(const std::vector<float>& row, const SamplingParams& params, uint64_t seed, int64_t position) {
  ChooseScratch scratch;
  return choose_token(row, largest(row), params, TokenNoise(seed, 0, position), scratch);
}

TEST(Choose, SkippingChangesNothing) {
  for (const bool ties : {false, true}) {
    for (const float spread : {0.1f, 1.0f, 4.0f}) {
      for (const size_t size : {size_t{1}, size_t{3}, size_t{64}, size_t{1001}}) {
        const std::vector<float> row = random_row(size, static_cast<uint32_t>(size), spread, ties);
        for (const double temperature : {0.001, 1.0, 2.0}) {
          for (const int64_t top_k : {0, 2, 40, 900}) {
            for (const double top_p : {1.0, 0.95, 0.5, 1e-9}) {
              SamplingParams params;
              params.min_p = top_k == 40 ? 0.3 : top_p == 0.5 ? 0.02 : 0.0;
              params.temperature = temperature;
              params.top_k = top_k;
              params.top_p = top_p;
              for (int64_t position = 0; position < 3; ++position) {
                ASSERT_EQ(choose(row, params, 5, position), plain_choice(row, params, TokenNoise(5, 0, position)))
                    << "size " << size << " temperature " << temperature << " top_k " << top_k << " top_p " << top_p
                    << " ties " << ties;
              }
            }
          }
        }
      }
    }
  }
}

TEST(Choose, SAMP_08_DisabledTopKKeepsAllTokens) {
  const std::vector<float> row = random_row(2000, 1, 2.0f);
  for (int64_t position = 0; position < 200; ++position) {
    SamplingParams params;
    const int32_t absent = choose(row, params, 3, position);
    for (const int64_t top_k : {int64_t{0}, int64_t{-1}, int64_t{2000}, int64_t{1} << 60}) {
      params.top_k = top_k;
      EXPECT_EQ(choose(row, params, 3, position), absent);
    }
    params.top_k = 1;
    EXPECT_EQ(choose(row, params, 3, position), largest(row));
  }
}

TEST(Choose, SAMP_08_TopK1IsGreedyAlsoWithTies) {
  const std::vector<float> row = {0.0f, 2.0f, 2.0f, 2.0f};
  SamplingParams params;
  params.top_k = 1;
  for (int64_t position = 0; position < 50; ++position) EXPECT_EQ(choose(row, params, 3, position), 1);
}

TEST(Choose, TopKKeepsTies) {
  const std::vector<float> row = {1.0f, 3.0f, 2.0f, 2.0f, 0.0f, 2.0f};
  SamplingParams params;
  params.top_k = 2;
  std::map<int32_t, int> seen;
  for (int64_t position = 0; position < 500; ++position) ++seen[choose(row, params, 3, position)];
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen.count(0) + seen.count(4), 0u);
}

/// Pearson's statistic of `draws` choices against the softmax over `kept`; its standard deviation is sqrt(2 (kept -
/// 1)).
double chi_square(const std::vector<float>& row, const SamplingParams& params, int draws) {
  const std::vector<int32_t> kept = plain_kept(row, params);
  std::map<int32_t, int> seen;
  for (int64_t position = 0; position < draws; ++position) ++seen[choose(row, params, 1234, position)];
  double total = 0;
  for (int32_t token : kept) total += std::exp(row[static_cast<size_t>(token)] / effective_temperature(params));
  double statistic = 0;
  int counted = 0;
  for (int32_t token : kept) {
    const double expected = draws * std::exp(row[static_cast<size_t>(token)] / effective_temperature(params)) / total;
    statistic += std::pow(seen[token] - expected, 2) / expected;
    counted += seen[token];
  }
  EXPECT_EQ(counted, draws) << "a token outside the kept set was chosen";
  return statistic;
}

TEST(Choose, FollowsTheDistribution) {
  const std::vector<float> row = random_row(12, 9, 1.0f);
  for (const double temperature : {0.7, 1.0, 1.6}) {
    SamplingParams params;
    params.temperature = temperature;
    EXPECT_LT(chi_square(row, params, 40000), 11 + 4 * std::sqrt(22.0)) << temperature;
    params.top_k = 5;
    EXPECT_LT(chi_square(row, params, 40000), 4 + 4 * std::sqrt(8.0)) << temperature;
    params.top_k = 0;
    params.top_p = 0.8;
    EXPECT_LT(chi_square(row, params, 40000), 11 + 4 * std::sqrt(22.0)) << temperature;
  }
}

TEST(Choose, MinPDropsByShareOfTheMostLikely) {
  std::vector<float> row = {0.0f, std::log(0.5f), std::log(0.25f), std::log(0.1f), -50.0f};
  const auto seen = [&](double min_p, double temperature) {
    SamplingParams params;
    params.min_p = min_p;
    params.temperature = temperature;
    std::map<int32_t, int> tokens;
    for (int64_t position = 0; position < 3000; ++position) ++tokens[choose(row, params, 3, position)];
    return tokens.size();
  };
  EXPECT_EQ(seen(0.2, 1.0), 3u);
  EXPECT_EQ(seen(0.09, 1.0), 4u);
  EXPECT_EQ(seen(0.2, 2.0), 4u);  // after the temperature
  EXPECT_EQ(seen(1.0, 1.0), 1u);
}

TEST(Choose, KeepChoosableLeavesWhatCanBeChosen) {
  for (const double top_p : {1.0, 0.7}) {
    for (const int64_t top_k : {0, 1, 5}) {
      for (const double min_p : {0.0, 0.2}) {
        const std::vector<float> row = random_row(40, 5, 1.0f);
        SamplingParams params;
        params.temperature = 0.5;
        params.top_p = top_p;
        params.top_k = top_k;
        params.min_p = min_p;
        std::vector<float> kept = row;
        ChooseScratch scratch;
        keep_choosable(kept, largest(row), params, scratch);
        std::vector<int32_t> left;
        for (size_t token = 0; token < row.size(); ++token) {
          if (std::isinf(kept[token])) continue;
          left.push_back(static_cast<int32_t>(token));
          EXPECT_EQ(kept[token], row[token] / 0.5f);
        }
        EXPECT_EQ(left, plain_kept(row, params));
      }
    }
  }
}

// Choosing one token must not be a matter of what other tokens' logits are, once it wins: noise belongs to the token.
TEST(Choose, NoiseOfATokenIsItsOwn) {
  std::vector<float> row = random_row(1000, 4, 1.0f);
  SamplingParams params;
  const int32_t before = choose(row, params, 8, 77);
  for (size_t token = 0; token < row.size(); ++token) {
    if (static_cast<int32_t>(token) != before) row[token] -= 1.0f;
  }
  EXPECT_EQ(choose(row, params, 8, 77), before);
}

TEST(Choose, SAMP_16_ImpossibleTokensAreNeverChosen) {
  std::vector<float> row(50, -kInfiniteLogit);
  row[7] = -100.0f;
  row[9] = kNotANumber;
  row[31] = -101.0f;
  std::vector<float> clean = row;
  clean[9] = -kInfiniteLogit;
  for (int64_t top_k : {0, 2, 10}) {
    for (double top_p : {1.0, 0.99}) {
      SamplingParams params;
      params.top_k = top_k;
      params.top_p = top_p;
      ChooseScratch scratch;
      for (int64_t position = 0; position < 100; ++position) {
        const int32_t token = choose_token(row, 7, params, TokenNoise(1, 0, position), scratch);
        EXPECT_TRUE(token == 7 || token == 31) << token;
      }
    }
  }
  const std::vector<float> nothing(8, -kInfiniteLogit);
  SamplingParams params;
  params.top_k = 3;
  params.top_p = 0.5;
  EXPECT_EQ(choose(nothing, params, 1, 1), 0);
}

TEST(KthLargest, EqualsSorting) {
  std::vector<float> scratch;
  for (const bool ties : {false, true}) {
    for (const size_t size : {size_t{1}, size_t{2}, size_t{100}, size_t{3001}}) {
      std::vector<float> row = random_row(size, 21, 3.0f, ties);
      std::vector<float> sorted = row;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (size_t k = 1; k <= size; k = k * 2 + 1)
        EXPECT_EQ(kth_largest(row, k, scratch), sorted[k - 1]) << size << " " << k;
      EXPECT_EQ(kth_largest(row, size, scratch), sorted[size - 1]);
      EXPECT_EQ(kth_largest(row, size + 1, scratch), -kInfiniteLogit);
    }
  }
  const std::vector<float> with_nan = {kNotANumber, 1.0f, kNotANumber, 3.0f, 2.0f, kNotANumber};
  EXPECT_EQ(kth_largest(with_nan, 1, scratch), 3.0f);
  EXPECT_EQ(kth_largest(with_nan, 2, scratch), 2.0f);
  EXPECT_EQ(kth_largest(with_nan, 4, scratch), -kInfiniteLogit);
}

}  // namespace
}  // namespace quire
