#include <gtest/gtest.h>

#include <algorithm>

#include "engine/core_harness.h"

namespace quire {
namespace {

int64_t cached_tokens(CoreHarness& harness, std::vector<int32_t> prompt, const std::string& salt = "",
                      uint64_t adapter = 0) {
  static int serial = 0;
  const std::string id = "request " + std::to_string(++serial);
  EngineRequest request = CoreHarness::request(id, prompt, 4);
  request.cache_salt = salt;
  request.adapter_id = adapter;
  harness.add(std::move(request));
  harness.run();
  EXPECT_EQ(harness.received[id].tokens, reference_tokens(prompt, 4, adapter));
  return harness.received[id].last.usage.cached_tokens;
}

TEST(PrefixCaching, PFX_01_OnlyTheTrueCommonPrefixHits) {
  CoreHarness harness({});
  const std::vector<int32_t> prompt = make_prompt(100);
  EXPECT_EQ(cached_tokens(harness, prompt), 0);

  std::vector<int32_t> first_differs = prompt;
  first_differs[0] += 1;
  EXPECT_EQ(cached_tokens(harness, first_differs), 0);

  std::vector<int32_t> end_of_block_differs = prompt;
  end_of_block_differs[31] += 1;
  EXPECT_EQ(cached_tokens(harness, end_of_block_differs), 16);

  std::vector<int32_t> swapped = prompt;
  std::swap_ranges(swapped.begin(), swapped.begin() + 16, swapped.begin() + 16);
  EXPECT_EQ(cached_tokens(harness, swapped), 0);
  EXPECT_EQ(cached_tokens(harness, prompt), 96);
}

TEST(PrefixCaching, PFX_02_SaltsAndAdaptersKeepApart) {
  CoreHarness harness({});
  const std::vector<int32_t> prompt = make_prompt(64);
  EXPECT_EQ(cached_tokens(harness, prompt, "a"), 0);
  EXPECT_EQ(cached_tokens(harness, prompt, "a"), 48);
  EXPECT_EQ(cached_tokens(harness, prompt, "b"), 0);
  EXPECT_EQ(cached_tokens(harness, prompt), 0);
  EXPECT_EQ(cached_tokens(harness, prompt), 48);
  EXPECT_EQ(cached_tokens(harness, prompt, "", 7), 0);
  EXPECT_EQ(cached_tokens(harness, prompt, "", 7), 48);
  EXPECT_EQ(cached_tokens(harness, prompt, "a", 7), 0);
}

TEST(PrefixCaching, PFX_06_WholePromptAlreadyCached) {
  CoreHarness harness({});
  const std::vector<int32_t> prompt = make_prompt(64);
  EXPECT_EQ(cached_tokens(harness, prompt), 0);
  EXPECT_EQ(cached_tokens(harness, prompt), 48) << "the last position is computed again";
  EXPECT_EQ(cached_tokens(harness, make_prompt(65)), 64);
  EngineRequest one = CoreHarness::request("one", prompt, 1);
  one.sampling.logprobs = 1;
  harness.add(std::move(one));
  harness.run();
  EXPECT_EQ(harness.received["one"].tokens, reference_tokens(prompt, 1));
  EXPECT_EQ(harness.received["one"].last.tokens[0].logprobs.size(), 1u);
}

TEST(PrefixCaching, OutputsAreCachedToo) {
  CoreHarness harness({});
  harness.add("first", make_prompt(20), 60);
  harness.run();
  std::vector<int32_t> conversation = make_prompt(20);
  for (const int32_t token : harness.received["first"].tokens) conversation.push_back(token);
  conversation.push_back(5);
  EXPECT_EQ(cached_tokens(harness, conversation), 64) << "the last sampled token was never computed";
}

TEST(PrefixCaching, RunningRequestsShareBlocks) {
  HarnessOptions options;
  options.blocks = {20};
  options.max_model_len = 320;
  CoreHarness harness(options);
  harness.add("a", make_prompt(161), 10);
  harness.step();
  for (const char* id : {"b", "c", "d"}) harness.add(id, make_prompt(161), 10);
  harness.step();
  EXPECT_EQ(harness.core->stats().running, 4) << "four prompts of eleven blocks fit in twenty only by sharing";
  harness.run();
  EXPECT_EQ(harness.core->stats().preemptions, 0);
}

TEST(PrefixCaching, EqualPromptsInOneStepEndUpOnOneCopy) {
  HarnessOptions options;
  options.budget = 1024;
  CoreHarness harness(options);
  for (const char* id : {"a", "b", "c"}) harness.add(id, make_prompt(160), 4);
  harness.step();
  EXPECT_DOUBLE_EQ(harness.core->stats().kv_cache_usage, 10.0 / 1000 + 0.0) << "ten blocks, held three times";
  harness.run();
}

TEST(PrefixCaching, LeastRecentlyUsedLeavesGoFirst) {
  HarnessOptions options;
  options.blocks = {20};
  options.max_model_len = 320;
  CoreHarness harness(options);
  cached_tokens(harness, make_prompt(128, 1));
  cached_tokens(harness, make_prompt(128, 2));
  cached_tokens(harness, make_prompt(96, 3));
  const int64_t oldest = cached_tokens(harness, make_prompt(128, 1));
  EXPECT_LT(oldest, 112);
  EXPECT_GT(oldest, 0) << "its first blocks outlive its last";
}

TEST(PrefixCaching, ResetDropsWhatNobodyUses) {
  CoreHarness harness({});
  cached_tokens(harness, make_prompt(64));
  EXPECT_TRUE(harness.core->reset_prefix_cache());
  EXPECT_EQ(cached_tokens(harness, make_prompt(64)), 0);
  harness.add("running", make_prompt(64), 8);
  harness.step();
  EXPECT_FALSE(harness.core->reset_prefix_cache());
  harness.run();
}

TEST(PrefixCaching, StatsCountTokens) {
  CoreHarness harness({});
  cached_tokens(harness, make_prompt(64));
  cached_tokens(harness, make_prompt(64));
  const EngineStats stats = harness.core->stats();
  EXPECT_EQ(stats.prefix_cache_queries, 128);
  EXPECT_EQ(stats.prefix_cache_hits, 48);
  EXPECT_EQ(stats.prompt_tokens, 128);
  EXPECT_EQ(stats.prompt_tokens_cached, 48);
}

TEST(PrefixCaching, OffMeansOff) {
  HarnessOptions options;
  options.config.enable_prefix_caching = false;
  CoreHarness harness(options);
  EXPECT_EQ(cached_tokens(harness, make_prompt(64)), 0);
  EXPECT_EQ(cached_tokens(harness, make_prompt(64)), 0);
  EXPECT_EQ(harness.core->stats().prefix_cache_queries, 0);
}

}  // namespace
}  // namespace quire
