// The same request gives the same tokens however its prompt is chunked, cached, preempted or accompanied.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/core_harness.h"

namespace quire {
namespace {

TEST(Invariance, CHNK_01_ChunkSizesGiveEqualOutputs) {
  for (const int64_t budget : {1, 7, 16, 64, 4096}) {
    HarnessOptions options;
    options.budget = budget;
    options.max_num_seqs = std::min<int64_t>(budget, 8);
    CoreHarness harness(options);
    for (int i = 0; i < 5; ++i) harness.add("r" + std::to_string(i), make_prompt(300 + i, i), 64);
    harness.run();
    for (int i = 0; i < 5; ++i) {
      const Received& got = harness.received["r" + std::to_string(i)];
      EXPECT_EQ(got.tokens, reference_tokens(make_prompt(300 + i, i), 64)) << "budget " << budget;
      EXPECT_EQ(got.last.finish_reason, FinishReason::kLength);
      EXPECT_EQ(got.ends, 1);
    }
    for (const FakeStep& step : harness.log->steps) EXPECT_LE(step.total, budget);
  }
}

std::vector<SampledToken> prompt_logprobs_of(int64_t budget, int64_t blocks, int repeat) {
  HarnessOptions options;
  options.budget = budget;
  options.max_num_seqs = std::min<int64_t>(budget, 8);
  options.blocks = {blocks};
  CoreHarness harness(options);
  std::vector<SampledToken> last;
  for (int i = 0; i < repeat; ++i) {
    EngineRequest request = CoreHarness::request("r" + std::to_string(i), make_prompt(80), 3);
    request.sampling.prompt_logprobs = 2;
    harness.add(std::move(request));
    harness.run();
    const Received& got = harness.received["r" + std::to_string(i)];
    EXPECT_EQ(got.prompt_logprob_outputs, 1);
    EXPECT_EQ(got.last.usage.cached_tokens, 0);
    last = got.prompt_logprobs;
  }
  return last;
}

void expect_equal(const std::vector<SampledToken>& got, const std::vector<SampledToken>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].token, expected[i].token);
    ASSERT_EQ(got[i].logprobs.size(), 3u);
    EXPECT_EQ(got[i].logprobs[0].logprob, expected[i].logprobs[0].logprob) << i;
  }
}

TEST(Invariance, CHNK_03_PromptLogprobsOverSeveralChunks) {
  const std::vector<SampledToken> whole = prompt_logprobs_of(4096, 1000, 1);
  ASSERT_EQ(whole.size(), 79u);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i].token, make_prompt(80)[i + 1]);
  for (const int64_t budget : {1, 7, 16, 79, 80}) expect_equal(prompt_logprobs_of(budget, 1000, 1), whole);
}

TEST(Invariance, PFX_04_PromptLogprobsWithAWarmCache) {
  expect_equal(prompt_logprobs_of(64, 1000, 3), prompt_logprobs_of(4096, 1000, 1));
}

TEST(Invariance, CHNK_03_PromptLogprobsSurvivePreemption) {
  HarnessOptions options;
  options.budget = 24;
  options.max_num_seqs = 8;
  options.blocks = {12};
  options.max_model_len = 192;
  CoreHarness harness(options);
  for (int i = 0; i < 4; ++i) {
    EngineRequest request = CoreHarness::request("r" + std::to_string(i), make_prompt(60, i), 100);
    request.sampling.prompt_logprobs = 2;
    harness.add(std::move(request));
  }
  harness.run();
  EXPECT_GT(harness.core->stats().preemptions, 0);
  for (int i = 0; i < 4; ++i) {
    const Received& got = harness.received["r" + std::to_string(i)];
    EXPECT_EQ(got.prompt_logprobs.size(), 59u);
    EXPECT_EQ(got.prompt_logprob_outputs, 1);
    EXPECT_EQ(got.tokens, reference_tokens(make_prompt(60, i), 100));
  }
}

class Preemption : public testing::TestWithParam<bool> {};

TEST_P(Preemption, CHNK_09_TinyPoolGivesSoloOutputs) {
  HarnessOptions options;
  options.blocks = {24};
  options.max_model_len = 200;
  options.budget = 64;
  options.max_num_seqs = 8;
  options.config.enable_prefix_caching = GetParam();
  CoreHarness harness(options);
  for (int i = 0; i < 8; ++i) harness.add("r" + std::to_string(i), make_prompt(40 + i, i), 128);
  harness.run();
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(harness.received["r" + std::to_string(i)].tokens, reference_tokens(make_prompt(40 + i, i), 128));
  }
  const EngineStats stats = harness.core->stats();
  EXPECT_GT(stats.preemptions, 0);
  EXPECT_EQ(stats.generation_tokens, 8 * 128);
  EXPECT_EQ(stats.finished_length, 8);
  EXPECT_EQ(stats.prompt_tokens, 40 * 8 + 28) << "a prompt counts once";
}
INSTANTIATE_TEST_SUITE_P(Caching, Preemption, testing::Bool());

TEST(Invariance, CHNK_13_BudgetSmallerThanABlock) {
  HarnessOptions options;
  options.budget = 8;
  options.max_num_seqs = 8;
  CoreHarness harness(options);
  for (int i = 0; i < 8; ++i) harness.add("r" + std::to_string(i), make_prompt(50, i), 40);
  harness.run();
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(harness.received["r" + std::to_string(i)].tokens, reference_tokens(make_prompt(50, i), 40));
  }
}

TEST(Invariance, SlidingWindowsBesideFullAttention) {
  for (const int64_t window : {1, 15, 16, 17, 40, 1000}) {
    HarnessOptions options;
    options.groups = {full_group(), sliding_group(window)};
    options.blocks = {200, 80};
    options.budget = 48;
    options.max_num_seqs = 8;
    CoreHarness harness(options);
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 4; ++i) {
        harness.add("r" + std::to_string(round * 4 + i), make_prompt(150 + i, i), 50);
      }
      harness.run();
    }
    for (int i = 0; i < 8; ++i) {
      const Received& got = harness.received["r" + std::to_string(i)];
      EXPECT_EQ(got.tokens, reference_tokens(make_prompt(150 + i % 4, i % 4), 50)) << "window " << window;
      if (i >= 4 && window <= 16) {
        EXPECT_GT(got.last.usage.cached_tokens, 0) << "window " << window;
      }
    }
  }
}

TEST(Invariance, SlidingWindowAloneOutlivesItsPool) {
  HarnessOptions options;
  options.groups = {sliding_group(64)};
  options.blocks = {12};
  options.budget = 32;
  options.max_num_seqs = 4;
  CoreHarness harness(options);
  for (int i = 0; i < 3; ++i) harness.add("r" + std::to_string(i), make_prompt(700, i), 300);
  harness.run();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(harness.received["r" + std::to_string(i)].tokens, reference_tokens(make_prompt(700, i), 300));
  }
}

TEST(Invariance, WholePromptsWithoutChunking) {
  CoreHarness harness(without_chunking(256, 32));
  for (int i = 0; i < 20; ++i) harness.add("r" + std::to_string(i), make_prompt(100 + i * 7, i), 20);
  harness.run();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(harness.received["r" + std::to_string(i)].tokens, reference_tokens(make_prompt(100 + i * 7, i), 20));
  }
  for (const FakeStep& step : harness.log->steps) {
    for (const FakeStep::Part& part : step.parts) EXPECT_TRUE(part.sample) << "no prompt may be cut";
  }
}

}  // namespace
}  // namespace quire
