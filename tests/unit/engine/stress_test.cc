// Random requests, aborts, failures and pools, with an integrity check after every step and every token compared.
#include <gtest/gtest.h>

#include <random>

#include "engine/core_harness.h"

namespace quire {
namespace {

struct Expected {
  std::vector<int32_t> tokens;
  bool may_be_cut = false;  ///< aborted, or in a failed step
};

HarnessOptions random_options(std::mt19937& random) {
  HarnessOptions options;
  const int kind = static_cast<int>(random() % 4);
  if (kind == 1) options.groups = {full_group(), sliding_group(1 + random() % 60)};
  if (kind == 2) options.groups = {sliding_group(1 + random() % 60)};
  if (kind == 3) options.groups = {full_group(), full_group(), sliding_group(33)};
  options.blocks.clear();
  for (size_t group = 0; group < options.groups.size(); ++group) options.blocks.push_back(14 + random() % 60);
  options.max_model_len = 200;
  options.config.enable_prefix_caching = random() % 5 != 0;
  options.config.enable_chunked_prefill = random() % 4 != 0;
  options.budget = options.config.enable_chunked_prefill ? 8 + random() % 120 : 200;
  options.max_num_seqs = 1 + random() % 8;
  options.config.scheduling_policy = random() % 2 == 0 ? SchedulingPolicy::kFcfs : SchedulingPolicy::kPriority;
  options.config.long_prefill_token_threshold = random() % 2 == 0 ? 0 : 40;
  if (random() % 3 == 0) options.config.lora.max_loras = 1;
  return options;
}

EngineRequest random_request(std::mt19937& random, int serial) {
  // Few families of prompts, so that prefixes are shared.
  EngineRequest request = CoreHarness::request("r" + std::to_string(serial),
                                               make_prompt(1 + random() % 150, random() % 3), 1 + random() % 60);
  request.priority = static_cast<int64_t>(random() % 3);
  request.adapter_id = random() % 4 == 0 ? 1 + random() % 2 : 0;
  if (random() % 4 == 0) request.cache_salt = "s" + std::to_string(random() % 2);
  if (random() % 8 == 0) request.sampling.prompt_logprobs = 0;
  return request;
}

void run_round(uint32_t seed, int requests, int64_t& preemptions) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const HarnessOptions options = random_options(random);
  CoreHarness harness(options);
  const int64_t longest = max_request_tokens(options.limits(), options.groups);
  std::map<std::string, Expected> expected;
  const bool fails = random() % 4 == 0;
  harness.fake->before_step = [&](const StepPlan&) -> Status {
    return fails && random() % 50 == 0 ? Status(internal_error("injected")) : Status();
  };
  int serial = 0;
  while (serial < requests || harness.core->has_requests()) {
    ASSERT_LT(harness.steps, requests * 400) << "no end";
    for (int i = static_cast<int>(random() % 3); i > 0 && serial < requests; --i, ++serial) {
      EngineRequest request = random_request(random, serial);
      if (!judge_request(request, options.limits(), longest).ok()) continue;
      const auto length = static_cast<int64_t>(request.prompt.size());
      const int64_t count = std::min(*request.sampling.max_tokens, longest - length);
      expected[request.id] = {reference_tokens(request.prompt, count, request.adapter_id), fails};
      harness.add(std::move(request));
    }
    if (random() % 20 == 0 && !expected.empty()) {
      const auto victim = std::next(expected.begin(), static_cast<int64_t>(random() % expected.size()));
      victim->second.may_be_cut = true;
      harness.core->abort(victim->first);
    }
    harness.step();
  }
  harness.core->check_integrity();
  for (auto& [id, want] : expected) {
    const Received& got = harness.received[id];
    ASSERT_EQ(got.ends, 1) << id;
    if (want.may_be_cut) want.tokens.resize(std::min(want.tokens.size(), got.tokens.size()));
    ASSERT_EQ(got.tokens, want.tokens) << id;
  }
  preemptions += harness.core->stats().preemptions;
}

TEST(Stress, RandomRequestsGiveTheirSoloTokens) {
  int64_t preemptions = 0;
  for (uint32_t seed = 1; seed <= 100 && !HasFatalFailure(); ++seed) run_round(seed, 40, preemptions);
  EXPECT_GT(preemptions, 20);
}

}  // namespace
}  // namespace quire
