// Who is computed when: fairness, order, preemption and ends.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/core_harness.h"

namespace quire {
namespace {

TEST(Scheduling, CHNK_06_LongPrefillDoesNotStarveShortOnes) {
  for (const int64_t threshold : {0, 100}) {
    HarnessOptions options;
    options.max_model_len = 10000;
    options.config.long_prefill_token_threshold = threshold;
    CoreHarness harness(options);
    harness.add("long", make_prompt(8000), 4);
    harness.step();
    for (int i = 0; i < 5; ++i) harness.add("short" + std::to_string(i), make_prompt(10, i + 1), 4);
    harness.run();
    for (int i = 0; i < 5; ++i) EXPECT_LE(harness.received["short" + std::to_string(i)].first_token_step, 3);
    EXPECT_EQ(harness.log->steps[1].parts[0].tokens, 206) << "what the short ones leave goes to the long one";
    EXPECT_LE(harness.steps, 8000 / 256 + 8);
  }
}

TEST(Scheduling, CHNK_06_LongPrefillProgressesUnderAFloodOfShortOnes) {
  HarnessOptions options;
  options.max_model_len = 10000;
  options.max_num_seqs = 16;
  CoreHarness harness(options);
  harness.add("long", make_prompt(2560), 1);
  int serial = 0;
  while (harness.received["long"].ends == 0) {
    ASSERT_LT(harness.steps, 40) << "half of ten times the budget takes twenty steps";
    for (int i = 0; i < 8; ++i, ++serial) harness.add("s" + std::to_string(serial), make_prompt(100, serial), 1);
    harness.step();
  }
  harness.run();
}

TEST(Scheduling, PrefillIsCutToTheTargetOnlyBesideDecodes) {
  HarnessOptions options;
  options.target_itl_seconds = 1e-9;  // no step is so short: the least that is allowed
  CoreHarness harness(options);
  harness.add("alone", make_prompt(512, 1), 200);
  harness.step();
  harness.step();
  EXPECT_EQ(harness.received["alone"].first_token_step, 1) << "two steps of the whole budget of 256";
  harness.add("late", make_prompt(320, 2), 1);
  harness.step();
  EXPECT_EQ(harness.core->stats().step_token_budget, 1 + 32);
  harness.run();
  EXPECT_EQ(harness.received["late"].first_token_step, 2 + 9) << "ten steps of 32 tokens";
}

TEST(Scheduling, PrefillTakesTheWholeBudgetUnderADistantTarget) {
  HarnessOptions options;
  options.target_itl_seconds = 1000;
  CoreHarness harness(options);
  harness.add("stream", make_prompt(10, 1), 200);
  harness.step();
  harness.add("late", make_prompt(700, 2), 1);
  harness.run();
  EXPECT_EQ(harness.received["late"].first_token_step, 1 + 2) << "255 tokens of three steps";
}

TEST(Scheduling, CHNK_08_HugeRequestAtTheHeadNeitherBlocksNorStarves) {
  HarnessOptions options;
  options.blocks = {40};
  options.max_model_len = 640;
  options.max_num_seqs = 8;
  CoreHarness harness(options);
  harness.add("holder", make_prompt(300, 1), 200);
  harness.step();
  harness.add("huge", make_prompt(500, 2), 4);
  int serial = 0;
  const auto add_tiny = [&] {
    harness.add("tiny" + std::to_string(serial), make_prompt(10, 100 + serial), 4), ++serial;
  };
  add_tiny();
  harness.step();
  EXPECT_EQ(harness.received["tiny0"].tokens.size(), 1u) << "a tiny one runs past the huge one";
  while (harness.received["huge"].ends == 0) {
    ASSERT_LT(harness.steps, 400) << "the huge one starves";
    add_tiny();
    harness.step();
  }
  harness.run();
  EXPECT_EQ(harness.received["huge"].tokens, reference_tokens(make_prompt(500, 2), 4));
}

TEST(Scheduling, DecodesDoNotPushAWholePromptBackForEver) {
  CoreHarness harness(without_chunking(64, 33));
  for (int i = 0; i < 32; ++i) harness.add("d" + std::to_string(i), make_prompt(2, i), 60);
  harness.step();
  harness.add("whole", make_prompt(60, 99), 1);
  for (int i = 0; i < 12; ++i) harness.step();
  EXPECT_EQ(harness.received["whole"].ends, 1);
  harness.run();
}

TEST(Scheduling, StepsAreOrderedByAdapter) {
  CoreHarness harness({});
  for (int i = 0; i < 12; ++i) {
    EngineRequest request = CoreHarness::request("r" + std::to_string(i), make_prompt(9, i), 5);
    request.adapter_id = static_cast<uint64_t>(i * 5 % 3);
    harness.add(std::move(request));
  }
  harness.run();
  for (const FakeStep& step : harness.log->steps) {
    EXPECT_TRUE(std::ranges::is_sorted(step.parts, {}, &FakeStep::Part::adapter_id));
  }
  EXPECT_EQ(harness.received["r1"].tokens, reference_tokens(make_prompt(9, 1), 5, 2));
}

TEST(Scheduling, PriorityRunsFirstAndIsPreemptedLast) {
  HarnessOptions options;
  options.config.scheduling_policy = SchedulingPolicy::kPriority;
  options.max_num_seqs = 2;
  options.blocks = {8};
  options.max_model_len = 128;
  CoreHarness harness(options);
  for (int i = 0; i < 4; ++i) {
    EngineRequest request = CoreHarness::request("r" + std::to_string(i), make_prompt(30, i), 60);
    request.priority = 10 - i;
    harness.add(std::move(request));
  }
  harness.run();
  EXPECT_EQ(harness.received["r3"].last.usage.preemptions, 0);
  EXPECT_LT(harness.received["r3"].first_token_step, harness.received["r0"].first_token_step);
  EXPECT_GT(harness.core->stats().preemptions, 0);
}

TEST(Scheduling, FirstComeFirstServedWithinSequenceLimit) {
  HarnessOptions options;
  options.max_num_seqs = 3;
  CoreHarness harness(options);
  for (int i = 0; i < 9; ++i) harness.add("r" + std::to_string(i), make_prompt(20, i), 5);
  harness.run();
  for (int i = 1; i < 9; ++i) {
    EXPECT_LE(harness.received["r" + std::to_string(i - 1)].first_token_step,
              harness.received["r" + std::to_string(i)].first_token_step);
  }
  for (const FakeStep& step : harness.log->steps) EXPECT_LE(step.parts.size(), 3u);
}

TEST(Ends, StopTokensEosAndLength) {
  const std::vector<int32_t> prompt = make_prompt(12);
  const std::vector<int32_t> expected = reference_tokens(prompt, 30);
  CoreHarness harness({});
  EngineRequest stop = CoreHarness::request("stop", prompt, 30);
  stop.sampling.stop_token_ids = {expected[7]};
  EngineRequest eos = CoreHarness::request("eos", prompt, 30);
  eos.eos_token_ids = {5000, expected[4]};
  EngineRequest ignored = CoreHarness::request("ignored", prompt, 30);
  ignored.eos_token_ids = {expected[4]};
  ignored.sampling.ignore_eos = true;
  for (EngineRequest* request : {&stop, &eos, &ignored}) harness.add(std::move(*request));
  harness.run();
  EXPECT_EQ(harness.received["stop"].tokens, std::vector<int32_t>(expected.begin(), expected.begin() + 8));
  EXPECT_EQ(harness.received["stop"].last.finish_reason, FinishReason::kStop);
  EXPECT_EQ(harness.received["stop"].last.stop_token_id, expected[7]);
  EXPECT_EQ(harness.received["eos"].tokens.size(), 5u);
  EXPECT_EQ(harness.received["eos"].last.stop_token_id, std::nullopt);
  EXPECT_EQ(harness.received["ignored"].tokens, expected);
  EXPECT_EQ(harness.core->stats().finished_stop, 2);
}

TEST(Ends, SRVR_04_MaxTokensIsClampedToTheContext) {
  HarnessOptions options;
  options.max_model_len = 256;
  CoreHarness harness(options);
  harness.add("clamped", make_prompt(200), 100000);
  EngineRequest absent = CoreHarness::request("absent", make_prompt(250), 1);
  absent.sampling.max_tokens = std::nullopt;
  harness.add(std::move(absent));
  harness.run();
  EXPECT_EQ(harness.received["clamped"].tokens.size(), 56u);
  EXPECT_EQ(harness.received["clamped"].last.finish_reason, FinishReason::kLength);
  EXPECT_EQ(harness.received["absent"].tokens.size(), 6u);
}

TEST(Ends, AbortsAtEveryStage) {
  HarnessOptions options;
  options.blocks = {10};
  options.max_model_len = 160;
  options.max_num_seqs = 2;
  options.budget = 16;
  CoreHarness harness(options);
  harness.add("prefilling", make_prompt(60, 1), 50);
  harness.add("decoding", make_prompt(10, 2), 50);
  harness.add("waiting", make_prompt(60, 3), 50);
  harness.step();
  harness.core->abort("waiting");
  harness.core->abort("waiting");
  harness.core->abort("unknown");
  harness.core->abort("prefilling");
  harness.step();
  harness.step();
  harness.core->abort("decoding");
  harness.core->deliver();
  EXPECT_FALSE(harness.core->has_requests());
  harness.core->check_integrity();
  for (const char* id : {"prefilling", "decoding", "waiting"}) {
    EXPECT_EQ(harness.received[id].ends, 1) << id;
    EXPECT_EQ(harness.received[id].last.finish_reason, FinishReason::kAbort);
  }
  EXPECT_EQ(harness.core->stats().finished_abort, 3);
}

TEST(Ends, AbortWhilePreempted) {
  HarnessOptions options;
  options.blocks = {6};
  options.max_model_len = 96;
  CoreHarness harness(options);
  harness.add("old", make_prompt(30, 1), 60);
  harness.add("young", make_prompt(30, 2), 60);
  while (harness.core->stats().preemptions == 0) harness.step();
  EXPECT_EQ(harness.core->stats().waiting, 1);
  harness.core->abort("young");
  harness.run();
  EXPECT_EQ(harness.received["young"].last.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(harness.received["young"].last.usage.preemptions, 1);
  EXPECT_EQ(harness.received["old"].tokens, reference_tokens(make_prompt(30, 1), 60));
}

TEST(Ends, AFailedStepCostsOnlyItsRequests) {
  for (const bool throws : {false, true}) {
    HarnessOptions options;
    options.max_num_seqs = 2;
    CoreHarness harness(options);
    int step = 0;
    harness.fake->before_step = [&](const StepPlan&) -> Status {
      if (++step != 3) return {};
      if (throws) throw std::runtime_error("a rank is gone");
      return internal_error("a rank is gone");
    };
    for (int i = 0; i < 4; ++i) harness.add("r" + std::to_string(i), make_prompt(40, i), 10);
    harness.run();
    for (int i = 0; i < 4; ++i) {
      const Received& got = harness.received["r" + std::to_string(i)];
      EXPECT_EQ(got.ends, 1);
      EXPECT_EQ(got.last.finish_reason, i < 2 ? FinishReason::kError : FinishReason::kLength);
      EXPECT_EQ(got.last.error.has_value(), i < 2);
      if (i >= 2) {
        EXPECT_EQ(got.tokens, reference_tokens(make_prompt(40, i), 10));
      }
    }
    EXPECT_EQ(harness.core->stats().finished_error, 2);
  }
}

TEST(Seeds, DrawnOnesFollowTheServersSeed) {
  std::vector<std::vector<int32_t>> runs;
  for (const int64_t seed : {1, 1, 2}) {
    HarnessOptions options;
    options.config.seed = seed;
    CoreHarness harness(options);
    for (const char* id : {"a", "b"}) {
      EngineRequest request = CoreHarness::request(id, make_prompt(8), 10);
      request.sampling.temperature = 1;
      harness.add(std::move(request));
    }
    harness.run();
    EXPECT_NE(harness.received["a"].tokens, harness.received["b"].tokens);
    runs.push_back(harness.received["a"].tokens);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
}

}  // namespace
}  // namespace quire
