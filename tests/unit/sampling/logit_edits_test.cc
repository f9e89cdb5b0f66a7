// Edits of a row against vLLM's definitions written out plainly.
#include "sampling/logit_edits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "sampling/random_row.h"

namespace quire {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
constexpr int32_t kEos = 2;

/// The row after edits that have seen `output`.
std::vector<float> edited(std::vector<float> row, const SamplingParams& params, const std::vector<int32_t>& prompt,
                          const std::vector<int32_t>& output, BadWords words = nullptr) {
  const std::vector<int32_t> eos = {kEos};
  const auto edits = LogitEdits::create(params, prompt, eos, std::move(words));
  if (edits == nullptr) return row;
  for (const int32_t token : output) edits->add_output(token);
  edits->apply(row, largest_logit(row));
  return row;
}

TEST(LogitEdits, NoneForPlainRequests) {
  SamplingParams params;
  params.temperature = 0.3;
  params.top_k = 4;
  params.min_p = 0.1;
  EXPECT_EQ(LogitEdits::create(params, {}, {}, nullptr), nullptr);
}

TEST(LogitEdits, PenaltiesAreVllms) {
  const std::vector<int32_t> prompt = {3, 4, 3, 5}, output = {5, 6, 6, 6, 7};
  for (const double repetition : {1.0, 1.3, 0.7}) {
    for (const double frequency : {0.0, 0.5, -1.0}) {
      for (const double presence : {0.0, 1.5, -2.0}) {
        SamplingParams params;
        params.repetition_penalty = repetition;
        params.frequency_penalty = frequency;
        params.presence_penalty = presence;
        const std::vector<float> row = random_row(12, 7, 3.0f);
        const std::vector<float> got = edited(row, params, prompt, output);
        for (int32_t token = 0; token < 12; ++token) {
          const auto counted = static_cast<float>(std::count(output.begin(), output.end(), token));
          const bool seen = counted > 0 || std::count(prompt.begin(), prompt.end(), token) > 0;
          float expected = row[static_cast<size_t>(token)];
          if (seen)
            expected =
                expected > 0 ? expected / static_cast<float>(repetition) : expected * static_cast<float>(repetition);
          expected -= static_cast<float>(frequency) * counted;
          if (counted > 0) expected -= static_cast<float>(presence);
          EXPECT_EQ(got[static_cast<size_t>(token)], expected) << token;
        }
      }
    }
  }
}

TEST(LogitEdits, PenaltiesBeyondFloatsRangeStayNumbers) {
  for (const double repetition : {1e300, 1e-300, 1e38, 1e-38}) {
    SamplingParams params;
    params.repetition_penalty = repetition;
    params.presence_penalty = 2.0;
    const std::vector<float> got =
        edited({0.0f, 4.0f, -4.0f, kImpossible, 1e38f}, params, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4});
    for (const float value : got) EXPECT_FALSE(std::isnan(value) || value == -kImpossible) << repetition;
  }
}

TEST(LogitEdits, SAMP_10_NoEndBeforeMinTokens) {
  SamplingParams params;
  params.min_tokens = 3;
  params.stop_token_ids = {6};
  params.ignore_eos = false;
  const std::vector<float> row = random_row(10, 1, 3.0f);
  std::vector<int32_t> output;
  for (size_t made = 0; made < 5; ++made) {
    const std::vector<float> got = edited(row, params, {1}, output);
    for (size_t token = 0; token < row.size(); ++token) {
      const bool ends = token == kEos || token == 6;
      EXPECT_EQ(got[token], ends && made < 3 ? kImpossible : row[token]);
    }
    output.push_back(4);
  }
}

TEST(LogitEdits, EditsEndWithMinTokens) {
  SamplingParams params;
  params.min_tokens = 2;
  const auto edits = LogitEdits::create(params, {}, {}, nullptr);
  ASSERT_NE(edits, nullptr);
  edits->add_output(1);
  EXPECT_TRUE(edits->active());
  edits->add_output(1);
  EXPECT_FALSE(edits->active());
}

TEST(LogitEdits, AllowedTokensAndBias) {
  SamplingParams params;
  params.allowed_token_ids = {7, 3, 3, 9};
  params.logit_bias = {{3, -100.0}, {5, 100.0}, {9, 2.5}};
  const std::vector<float> row = random_row(12, 3, 3.0f);
  const std::vector<float> got = edited(row, params, {}, {});
  for (size_t token = 0; token < row.size(); ++token) {
    const float expected = token == 3   ? row[3] - 100.0f
                           : token == 7 ? row[7]
                           : token == 9 ? row[9] + 2.5f
                                        : kImpossible;
    EXPECT_EQ(got[token], expected) << token;  // a bias does not allow what is not allowed
  }
}

TEST(LogitEdits, WhereNothingIsPossibleTheMostLikelyAllowedIsNamed) {
  SamplingParams params;
  params.allowed_token_ids = {kEos, 5};
  params.stop_token_ids = {5};
  params.min_tokens = 1;
  std::vector<float> row = {0, 9, 1, 8, 7, 3};
  const auto edits = LogitEdits::create(params, {}, std::vector<int32_t>{kEos}, nullptr);
  EXPECT_EQ(edits->apply(row, 1), 5);
  EXPECT_EQ(row, std::vector<float>(6, kImpossible));
}

// "the" as the, t+he, th+e; the word is three characters long.
BadWords the_word() {
  return std::make_shared<const std::vector<BadWord>>(
      std::vector<BadWord>{{{{0, 3, 10}, {0, 1, 11}, {1, 3, 12}, {0, 2, 13}, {2, 3, 14}, {1, 2, 15}}, 3}});
}

std::set<int32_t> banned_after(const std::vector<int32_t>& output) {
  BadWordProgress progress(the_word());
  for (const int32_t token : output) progress.advance(token);
  std::vector<int32_t> banned;
  progress.add_banned(banned);
  return {banned.begin(), banned.end()};
}

TEST(BadWords, SAMP_20_EverySpellingIsStopped) {
  EXPECT_EQ(banned_after({}), (std::set<int32_t>{10}));
  EXPECT_EQ(banned_after({11}), (std::set<int32_t>{10, 12}));
  EXPECT_EQ(banned_after({13}), (std::set<int32_t>{10, 14}));
  EXPECT_EQ(banned_after({11, 15}), (std::set<int32_t>{10, 14}));
  EXPECT_EQ(banned_after({11, 11}), (std::set<int32_t>{10, 12}));
  EXPECT_EQ(banned_after({11, 15, 20}), (std::set<int32_t>{10}));
  EXPECT_EQ(banned_after({15}), (std::set<int32_t>{10}));
  EXPECT_EQ(banned_after({10}), (std::set<int32_t>{10}));
}

TEST(BadWords, SAMP_20_TheRowLosesThem) {
  SamplingParams params;
  params.bad_words = {"the"};
  const std::vector<float> got = edited(std::vector<float>(20, 1.0f), params, {11}, {11}, the_word());
  for (size_t token = 0; token < got.size(); ++token)
    EXPECT_EQ(got[token], token == 10 || token == 12 ? kImpossible : 1.0f);
}

TEST(LargestLogit, EqualsAPlainScan) {
  for (const size_t size : {size_t{1}, size_t{15}, size_t{16}, size_t{17}, size_t{1000}}) {
    std::vector<float> row = random_row(size, static_cast<uint32_t>(size), 3.0f);
    for (float& value : row) value = std::round(value);
    EXPECT_EQ(largest_logit(row), std::max_element(row.begin(), row.end()) - row.begin());
  }
  EXPECT_EQ(largest_logit(std::vector<float>(40, kImpossible)), 0);
}

}  // namespace
}  // namespace quire
