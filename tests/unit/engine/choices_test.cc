// Requests that wait for the pages of another one's prompt, as the choices of one request do.
#include <gtest/gtest.h>

#include "engine/core_harness.h"

namespace quire {
namespace {

/// A leader "0" and followers "1", "2", ... with one prompt of ten pages and a rest.
void add_choices(CoreHarness& harness, int count, int64_t max_tokens) {
  for (int choice = 0; choice < count; ++choice) {
    EngineRequest request = CoreHarness::request(std::to_string(choice), make_prompt(165), max_tokens);
    request.sampling.temperature = 1;
    request.sampling.seed = choice + 1;
    request.choice = choice;
    if (choice > 0) request.shares_prompt_with = "0";
    harness.add(std::move(request));
  }
}

void expect_all(const CoreHarness& harness, int first, int count, int64_t max_tokens) {
  for (int choice = first; choice < count; ++choice) {
    const Received& received = harness.received.at(std::to_string(choice));
    EXPECT_EQ(received.ends, 1);
    EXPECT_EQ(received.last.finish_reason, FinishReason::kLength);
    EXPECT_EQ(received.tokens, reference_tokens(make_prompt(165), max_tokens, 0, static_cast<uint64_t>(choice) + 1));
  }
}

TEST(Choices, ThePromptIsComputedOnce) {
  for (const int64_t budget : {64, 256, 1024}) {
    HarnessOptions options;
    options.budget = budget;
    options.max_num_seqs = 8;
    CoreHarness harness(options);
    add_choices(harness, 6, 8);
    EXPECT_EQ(harness.core->stats().waiting, 6);
    harness.run();
    expect_all(harness, 0, 6, 8);
    int64_t computed = 0;
    for (const FakeStep& step : harness.log->steps) computed += step.total;
    EXPECT_EQ(computed, 165 + 5 * 5 + 6 * 7);  // the rest of 5 tokens anew for each follower, then 7 decodes each
  }
}

TEST(Choices, AFollowerThatIsAbortedWhileItWaits) {
  CoreHarness harness({});
  add_choices(harness, 4, 4);
  harness.core->abort("2");
  harness.core->deliver();
  EXPECT_EQ(harness.received["2"].last.finish_reason, FinishReason::kAbort);
  harness.run();
  expect_all(harness, 0, 2, 4);
  expect_all(harness, 3, 4, 4);
  EXPECT_EQ(harness.core->stats().waiting, 0);
}

TEST(Choices, ALeaderThatIsAbortedLeavesItsPlaceToTheNext) {
  for (const int steps : {0, 1}) {
    HarnessOptions options;
    options.budget = 64;
    CoreHarness harness(options);
    add_choices(harness, 4, 4);
    for (int i = 0; i < steps; ++i) harness.step();
    harness.core->abort("0");
    harness.run();
    expect_all(harness, 1, 4, 4);
    int64_t computed = 0;
    for (const FakeStep& step : harness.log->steps) computed += step.total;
    EXPECT_EQ(computed, (steps > 0 ? 64 : 0) + (steps > 0 ? 165 - 64 : 165) + 2 * 5 + 3 * 3);
  }
}

TEST(Choices, AStepThatFailsCostsTheLeaderOnly) {
  CoreHarness harness({});
  add_choices(harness, 3, 4);
  bool failed = false;
  harness.fake->before_step = [&](const StepPlan&) -> Status {
    if (std::exchange(failed, true)) return {};
    return internal_error("once");
  };
  harness.run();
  EXPECT_EQ(harness.received["0"].last.finish_reason, FinishReason::kError);
  expect_all(harness, 1, 3, 4);
}

TEST(Choices, ScarceBlocksAndNoSharing) {
  for (const bool caching : {true, false}) {
    HarnessOptions options;
    options.blocks = {16};
    options.max_model_len = 240;
    options.budget = 64;
    options.config.enable_prefix_caching = caching;
    CoreHarness harness(options);
    add_choices(harness, 5, 60);
    harness.run();
    expect_all(harness, 0, 5, 60);
  }
}

TEST(Choices, EverythingEndsAtTheEnd) {
  CoreHarness harness({});
  add_choices(harness, 3, 4);
  harness.core->end_all(FinishReason::kAbort, std::nullopt);
  harness.core->deliver();
  for (const auto& [id, received] : harness.received) EXPECT_EQ(received.ends, 1) << id;
}

TEST(Choices, MinTokensHoldsOffEndsAndRepetitionComesLast) {
  CoreHarness harness({});
  EngineRequest request = CoreHarness::request("a", make_prompt(20), 50);
  const std::vector<int32_t> tokens = reference_tokens(make_prompt(20), 50);
  request.eos_token_ids = {tokens[4], tokens[9]};
  request.sampling.min_tokens = 7;
  harness.add(std::move(request));
  harness.run();
  EXPECT_EQ(harness.received["a"].tokens.size(), 10u);
  EXPECT_EQ(harness.received["a"].last.finish_reason, FinishReason::kStop);
}

}  // namespace
}  // namespace quire
