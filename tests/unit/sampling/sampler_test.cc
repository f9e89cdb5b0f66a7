// Batches through ops: what one row gets must not depend on its neighbours or on threads.
#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "sampling/random_row.h"

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Fixture {
  explicit Fixture(int threads = 2) : pool({.threads = threads, .pin = false}) {}
  ThreadPool pool;
  Workspace workspace;
  OpContext context{Device{}, &pool, &workspace};

  std::vector<SampledToken> run(std::vector<float> logits, const std::vector<SamplingRow>& rows) {
    const auto count = static_cast<int64_t>(rows.size());
    const Tensor tensor =
        Tensor::view(logits.data(), count, static_cast<int64_t>(logits.size()) / count, DType::kFloat32);
    std::vector<SampledToken> out(rows.size());
    sample(context, tensor, rows, out);
    return out;
  }
};

bool equal(const SampledToken& a, const SampledToken& b) {
  return a.token == b.token && std::equal(a.logprobs.begin(), a.logprobs.end(), b.logprobs.begin(), b.logprobs.end(),
                                          [](const TokenLogprob& x, const TokenLogprob& y) {
                                            return x.token == y.token && x.logprob == y.logprob && x.rank == y.rank;
                                          });
}

TEST(Sampler, SAMP_01_SeedDoesNotSeeNeighbours) {
  constexpr size_t kVocab = 5000;
  SamplingParams seeded, greedy, other;
  seeded.temperature = 0.8;
  seeded.logprobs = 3;
  greedy.temperature = 0.0;
  other.top_k = 50;
  other.top_p = 0.9;
  const std::vector<float> row = random_row(kVocab, 1, 2.0f);
  Fixture alone(1);
  const SampledToken expected = alone.run(row, {{&seeded, 42, 17, 0}})[0];
  for (const size_t neighbours : {1, 3, 7, 31}) {
    for (const size_t place : {size_t{0}, neighbours / 2, neighbours}) {
      std::vector<float> logits = random_row(kVocab * (neighbours + 1), static_cast<uint32_t>(neighbours), 2.0f);
      std::copy(row.begin(), row.end(), logits.begin() + static_cast<std::ptrdiff_t>(place * kVocab));
      std::vector<SamplingRow> rows(neighbours + 1);
      for (size_t i = 0; i < rows.size(); ++i)
        rows[i] = {i % 2 == 0 ? &greedy : &other, i * 77, static_cast<int64_t>(i), 0};
      rows[place] = {&seeded, 42, 17, 0};
      Fixture batch(2);
      EXPECT_TRUE(equal(batch.run(logits, rows)[place], expected));
    }
  }
}

TEST(Sampler, SAMP_02_ChoicesDiffer) {
  SamplingParams params;
  const std::vector<float> row(1000, 0.0f);
  Fixture fixture;
  std::vector<int32_t> tokens;
  for (int32_t choice = 0; choice < 4; ++choice) tokens.push_back(fixture.run(row, {{&params, 1, 5, choice}})[0].token);
  std::sort(tokens.begin(), tokens.end());
  EXPECT_EQ(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

TEST(Sampler, SAMP_04_TinyTemperaturesAreGreedy) {
  const std::vector<float> row = random_row(3000, 3, 2.0f);
  const auto best = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
  Fixture fixture;
  for (const double temperature : {0.0, 1e-38, 1e-10, 1e-6}) {
    SamplingParams params;
    params.temperature = temperature;
    params.logprobs = 2;
    params.top_k = 5;
    const SampledToken result = fixture.run(row, {{&params, 9, 2, 0}})[0];
    EXPECT_EQ(result.token, best);
    for (const TokenLogprob& entry : result.logprobs) EXPECT_TRUE(std::isfinite(entry.logprob));
  }
}

TEST(Sampler, GreedyTakesTheLowestOfEqualTokens) {
  SamplingParams params;
  params.temperature = 0.0;
  std::vector<float> row(100, -1.0f);
  row[40] = row[41] = row[99] = 3.0f;
  Fixture fixture;
  EXPECT_EQ(fixture.run(row, {{&params, 0, 0, 0}})[0].token, 40);
  EXPECT_TRUE(fixture.run(row, {{&params, 0, 0, 0}})[0].logprobs.empty());
}

TEST(Sampler, LogprobsAreRawAndChosenFirst) {
  const std::vector<float> row = {0.0f, 1.0f, 3.0f, 2.0f, 2.0f};
  double sum = 0;
  for (float value : row) sum += std::exp(value);
  SamplingParams params;
  params.temperature = 2.0;
  params.top_k = 4;
  params.logprobs = 3;
  Fixture fixture;
  for (int64_t position = 0; position < 20; ++position) {
    const SampledToken result = fixture.run(row, {{&params, 6, position, 0}})[0];
    ASSERT_EQ(result.logprobs.size(), 4u);
    EXPECT_EQ(result.logprobs[0].token, result.token);
    EXPECT_EQ(result.logprobs[1].token, 2);
    EXPECT_EQ(result.logprobs[2].token, 3);
    EXPECT_EQ(result.logprobs[3].token, 4);
    for (const TokenLogprob& entry : result.logprobs) {
      EXPECT_NEAR(entry.logprob, row[static_cast<size_t>(entry.token)] - std::log(sum), 1e-5);
    }
    const int64_t ranks[] = {5, 4, 1, 2, 2};
    EXPECT_EQ(result.logprobs[0].rank, ranks[result.token]);
    for (size_t i = 1; i < 4; ++i) EXPECT_EQ(result.logprobs[i].rank, static_cast<int64_t>(i));
  }
}

TEST(Sampler, LogprobCounts) {
  const std::vector<float> row = random_row(7, 3, 2.0f);
  Fixture fixture;
  SamplingParams params;
  for (const auto& [asked, given] : std::vector<std::pair<int64_t, size_t>>{{0, 1}, {1, 2}, {7, 8}, {50, 8}, {-1, 8}}) {
    params.logprobs = asked;
    EXPECT_EQ(fixture.run(row, {{&params, 6, 0, 0}})[0].logprobs.size(), given);
  }
}

TEST(Sampler, SAMP_16_BrokenLogitsGiveADefinedToken) {
  Fixture fixture;
  for (const double temperature : {0.0, 1.0}) {
    SamplingParams params;
    params.temperature = temperature;
    params.logprobs = 2;
    params.top_k = 3;
    params.top_p = 0.9;
    const auto run = [&](std::vector<float> row) { return fixture.run(std::move(row), {{&params, 1, 1, 0}})[0]; };
    EXPECT_EQ(run({kNan, 1.0f, kNan, -50.0f}).token, 1);
    EXPECT_NEAR(run({kNan, 1.0f, kNan, -50.0f}).logprobs[0].logprob, 0.0f, 1e-6);
    EXPECT_EQ(run({0.0f, 1.0f, kInfinity, -kInfinity}).token, 2);
    EXPECT_EQ(run({kNan, kNan, kNan, kNan}).token, 0);
    EXPECT_EQ(run({-kInfinity, -kInfinity, -kInfinity, -kInfinity}).token, 0);
    const SampledToken masked = run({-kInfinity, 2.0f, -kInfinity, -kInfinity});
    EXPECT_EQ(masked.token, 1);
    EXPECT_EQ(masked.logprobs[0].logprob, 0.0f);
    EXPECT_FALSE(std::isnan(masked.logprobs[2].logprob));
  }
}

TEST(Sampler, EditsComeFirstAndLogprobsStayRaw) {
  const std::vector<float> row = {0.0f, 5.0f, 3.0f, 2.0f};
  SamplingParams params;
  params.temperature = 0.0;
  params.logprobs = 1;
  params.logit_bias = {{3, 50.0}};
  const auto edits = LogitEdits::create(params, {}, {}, nullptr);
  Fixture fixture;
  const SampledToken plain = fixture.run(row, {{&params, 1, 1, 0}})[0];
  const SampledToken biased = fixture.run(row, {{&params, 1, 1, 0, edits.get()}})[0];
  EXPECT_EQ(plain.token, 1);
  EXPECT_EQ(biased.token, 3);
  EXPECT_EQ(biased.logprobs[0].rank, 3);
  EXPECT_EQ(biased.logprobs[1].token, 1);
  EXPECT_EQ(biased.logprobs[1].logprob, plain.logprobs[1].logprob);
}

TEST(Sampler, LogprobsModes) {
  const std::vector<float> row = {0.0f, 4.0f, 3.0f, 2.0f, 1.0f};
  SamplingParams params;
  params.temperature = 0.5;
  params.top_k = 2;
  params.logprobs = 3;
  params.logit_bias = {{1, -2.0}};  // 0, 2, 3, 2, 1: token 2 leads, 1 and 3 tie as second
  const auto edits = LogitEdits::create(params, {}, {}, nullptr);
  Fixture fixture;
  const auto values = [&](LogprobsMode mode, bool greedy) {
    SamplingParams changed = params;
    if (greedy) changed.temperature = 0.0;
    const SampledToken sampled = fixture.run(row, {{&changed, 5, 9, 0, edits.get(), mode}})[0];
    std::map<int32_t, float> given;
    for (size_t i = 1; i < sampled.logprobs.size(); ++i) given[sampled.logprobs[i].token] = sampled.logprobs[i].logprob;
    EXPECT_EQ(given.size(), 3u);
    return given;
  };
  for (const bool greedy : {false, true}) {
    const auto raw = values(LogprobsMode::kRawLogits, greedy);
    EXPECT_EQ(raw, (std::map<int32_t, float>{{1, 4.0f}, {2, 3.0f}, {3, 2.0f}}));
    const auto logprobs = values(LogprobsMode::kRawLogprobs, greedy);
    EXPECT_NEAR(logprobs.at(1) - logprobs.at(3), 2.0f, 1e-5);
  }
  EXPECT_EQ(values(LogprobsMode::kProcessedLogits, true), (std::map<int32_t, float>{{1, 2.0f}, {2, 3.0f}, {3, 2.0f}}));
  EXPECT_EQ(values(LogprobsMode::kProcessedLogits, false), (std::map<int32_t, float>{{1, 4.0f}, {2, 6.0f}, {3, 4.0f}}));
  const auto processed = values(LogprobsMode::kProcessedLogprobs, false);
  double total = 0;
  for (const auto& [token, logprob] : processed) total += std::exp(static_cast<double>(logprob));
  EXPECT_NEAR(total, 1.0, 1e-6);  // top_k 2 leaves the three that tie, and nothing else
}

TEST(Sampler, LogprobsOfNamedTokens) {
  const std::vector<float> row = {0.0f, 4.0f, 3.0f, 2.0f};
  SamplingParams params;
  params.temperature = 0.0;
  params.logprobs = 0;
  params.logprob_token_ids = {3, 0};
  Fixture fixture;
  const SampledToken sampled = fixture.run(row, {{&params, 1, 1, 0}})[0];
  ASSERT_EQ(sampled.logprobs.size(), 3u);
  EXPECT_EQ(sampled.logprobs[0].token, 1);
  EXPECT_EQ(sampled.logprobs[1].token, 3);
  EXPECT_EQ(sampled.logprobs[1].rank, 3);
  EXPECT_EQ(sampled.logprobs[2].token, 0);
  EXPECT_EQ(sampled.logprobs[2].rank, 4);
}

TEST(Sampler, SAMP_01_EditedRowsDoNotSeeNeighbours) {
  constexpr size_t kVocab = 3000;
  SamplingParams edited, plain;
  edited.repetition_penalty = 1.5;
  edited.frequency_penalty = 0.4;
  edited.min_p = 0.02;
  edited.logprobs = 4;
  std::vector<int32_t> prompt;
  for (int32_t token = 0; token < 900; ++token) prompt.push_back(token * 3 % 1000);
  const auto edits = LogitEdits::create(edited, prompt, {}, nullptr);
  for (const int32_t token : prompt) edits->add_output(token + 100);
  const std::vector<float> row = random_row(kVocab, 1, 2.0f);
  for (const LogprobsMode mode : {LogprobsMode::kRawLogprobs, LogprobsMode::kProcessedLogprobs}) {
    Fixture alone(1), batch(2);
    const SamplingRow sampling{&edited, 42, 17, 0, edits.get(), mode};
    const SampledToken expected = alone.run(row, {sampling})[0];
    std::vector<float> logits = random_row(kVocab * 8, 2, 2.0f);
    std::copy(row.begin(), row.end(), logits.begin() + 5 * kVocab);
    std::vector<SamplingRow> rows(8, {&plain, 7, 3, 0});
    rows[5] = sampling;
    EXPECT_TRUE(equal(batch.run(logits, rows)[5], expected));
  }
}

TEST(Sampler, ThreadsChangeNothing) {
  constexpr size_t kRows = 64, kVocab = 3001;
  const std::vector<float> logits = random_row(kRows * kVocab, 12, 2.0f);
  std::vector<SamplingParams> params(kRows);
  std::vector<SamplingRow> rows;
  for (size_t i = 0; i < kRows; ++i) {
    params[i].temperature = 0.4 * static_cast<double>(i % 5);
    params[i].top_p = i % 3 == 0 ? 0.9 : 1.0;
    params[i].top_k = i % 4 == 0 ? 30 : 0;
    if (i % 2 == 0) params[i].logprobs = static_cast<int64_t>(i % 6);
    rows.push_back({&params[i], i, static_cast<int64_t>(i), 0});
  }
  Fixture one(1), two(2);
  const std::vector<SampledToken> a = one.run(logits, rows), b = two.run(logits, rows);
  for (size_t i = 0; i < kRows; ++i) EXPECT_TRUE(equal(a[i], b[i])) << i;
}

TEST(Sampler, ScoreGivesTheNextTokensLogprob) {
  constexpr int64_t kRows = 5, kVocab = 40;
  std::vector<float> logits = random_row(kRows * kVocab, 2, 2.0f);
  const Tensor tensor = Tensor::view(logits.data(), kRows, kVocab, DType::kFloat32);
  const std::vector<int32_t> next = {0, 39, 7, 7, 12};
  const std::vector<int64_t> counts = {0, 1, 5, -1, 3};
  std::vector<SampledToken> out(kRows);
  Fixture fixture;
  score(fixture.context, tensor, next, counts, out);
  for (size_t i = 0; i < kRows; ++i) {
    const float* row = &logits[i * kVocab];
    double sum = 0;
    for (int64_t k = 0; k < kVocab; ++k) sum += std::exp(row[k]);
    const auto rank = 1 + std::count_if(row, row + kVocab, [&](float value) { return value > row[next[i]]; });
    EXPECT_EQ(out[i].token, next[i]);
    ASSERT_EQ(out[i].logprobs.size(), 1 + static_cast<size_t>(counts[i] < 0 ? kVocab : counts[i]));
    EXPECT_NEAR(out[i].logprobs[0].logprob, row[next[i]] - std::log(sum), 1e-5);
    EXPECT_EQ(out[i].logprobs[0].rank, rank);
  }
}

}  // namespace
}  // namespace quire
