// A cap on the adapters of a step (--max-loras): nobody starves, a burst holds nobody up, and without a cap nothing
// changes.
#include "engine/adapter_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "engine/core_harness.h"

namespace quire {
namespace {

EngineRequest adapter_request(const std::string& id, uint64_t adapter, int64_t prompt, int64_t max_tokens) {
  EngineRequest request = CoreHarness::request(id, make_prompt(prompt, static_cast<int32_t>(adapter)), max_tokens);
  request.adapter_id = adapter;
  return request;
}

std::set<uint64_t> adapters_of(const FakeStep& step) {
  std::set<uint64_t> ids;
  for (const FakeStep::Part& part : step.parts) {
    if (part.adapter_id != 0) ids.insert(part.adapter_id);
  }
  return ids;
}

/// Equal adapters must be side by side, the base model first.
void expect_segments(const FakeStep& step) {
  EXPECT_TRUE(std::ranges::is_sorted(step.parts, {}, &FakeStep::Part::adapter_id));
}

HarnessOptions capped(int64_t max_loras) {
  HarnessOptions options;
  options.config.lora.enabled = true;
  options.config.lora.max_loras = max_loras;
  return options;
}

TEST(AdapterTurns, WithoutACapAllRunInEveryStep) {
  CoreHarness harness({});
  for (uint64_t adapter = 0; adapter < 6; ++adapter) {
    harness.add(adapter_request("r" + std::to_string(adapter), adapter, 8, 5));
  }
  harness.run();
  EXPECT_EQ(harness.steps, 5);
  for (const FakeStep& step : harness.log->steps) {
    EXPECT_EQ(adapters_of(step).size(), 5u);
    expect_segments(step);
  }
}

TEST(AdapterTurns, ACapHoldsInEveryStepAndTheBaseModelNeedsNoPlace) {
  CoreHarness harness(capped(2));
  for (int i = 0; i < 30; ++i) {
    harness.add(adapter_request("r" + std::to_string(i), static_cast<uint64_t>(i % 6), 10, 12));
  }
  harness.run();
  for (const FakeStep& step : harness.log->steps) {
    EXPECT_LE(adapters_of(step).size(), 2u);
    expect_segments(step);
  }
  for (int i = 0; i < 30; ++i) {
    const auto adapter = static_cast<uint64_t>(i % 6);
    const Received& got = harness.received["r" + std::to_string(i)];
    EXPECT_EQ(got.tokens, reference_tokens(make_prompt(10, static_cast<int32_t>(adapter)), 12, adapter));
  }
}

TEST(AdapterTurns, TheBaseModelRunsInEveryStep) {
  CoreHarness harness(capped(1));
  harness.add(adapter_request("base", 0, 8, 40));
  for (uint64_t adapter = 1; adapter < 9; ++adapter) {
    harness.add(adapter_request("r" + std::to_string(adapter), adapter, 8, 20));
  }
  while (harness.received["base"].ends == 0) harness.step();
  EXPECT_EQ(harness.steps, 40) << "a token of the base model in each step";
  harness.run();
}

TEST(AdapterTurns, RunningAdaptersTakeTurns) {
  CoreHarness harness(capped(2));
  for (uint64_t adapter = 1; adapter <= 6; ++adapter) {
    harness.add(adapter_request("r" + std::to_string(adapter), adapter, 8, 30));
  }
  harness.run();
  std::map<uint64_t, size_t> last;
  for (size_t i = 0; i < harness.log->steps.size(); ++i) {
    for (const uint64_t id : adapters_of(harness.log->steps[i])) {
      EXPECT_LE(i - (last.contains(id) ? last[id] : 0), 3u) << "six adapters, two places: every third step";
      last[id] = i;
    }
  }
}

TEST(AdapterTurns, ABurstOnOneAdapterHoldsNobodyUp) {
  for (const int64_t cap : {1, 2, 4}) {
    HarnessOptions options = capped(cap);
    options.max_num_seqs = 16;
    CoreHarness harness(options);
    for (int i = 0; i < 500; ++i) harness.add(adapter_request("burst" + std::to_string(i), 1, 20, 100));
    for (int i = 0; i < 5; ++i) harness.step();
    const int64_t begin = harness.steps;
    harness.add(adapter_request("base", 0, 8, 5));
    harness.add(adapter_request("other", 2, 8, 5));
    while (harness.received["other"].ends == 0 || harness.received["base"].ends == 0) {
      harness.step();
      ASSERT_LE(harness.steps - begin, 14) << "cap " << cap;
    }
    for (int i = 0; i < 500; ++i) harness.core->abort("burst" + std::to_string(i));
    harness.run();
  }
}

TEST(AdapterTurns, AllSeatsTakenByManyAdaptersStillRotate) {
  HarnessOptions options = capped(1);
  options.max_num_seqs = 4;
  CoreHarness harness(options);
  for (int i = 0; i < 64; ++i) {
    harness.add(adapter_request("r" + std::to_string(i), static_cast<uint64_t>(1 + i % 8), 30, 10));
  }
  harness.run(2000);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(harness.received["r" + std::to_string(i)].tokens.size(), 10u);
}

TEST(AdapterTurns, PlacesThatNobodyCanUseGoOn) {
  // Adapter 1 needs most of the cache for its second request, which waits while the first holds blocks.
  HarnessOptions options = capped(1);
  options.blocks = {20};
  options.max_model_len = 320;
  CoreHarness harness(options);
  harness.add(adapter_request("holder", 2, 100, 150));
  harness.step();
  harness.add(adapter_request("huge", 1, 300, 4));
  int idle = 0;
  while (harness.received["holder"].ends == 0) {
    const size_t before = harness.received["holder"].tokens.size();
    harness.step();
    idle += harness.received["holder"].tokens.size() == before ? 1 : 0;
  }
  EXPECT_LE(idle, 2) << "the one that waits for blocks does not take the running one's place";
  harness.run();
  EXPECT_EQ(harness.received["huge"].tokens.size(), 4u);
}

TEST(AdapterTurns, CountsAreOfRunningAndWaitingRequests) {
  HarnessOptions options = capped(1);
  options.max_num_seqs = 2;
  CoreHarness harness(options);
  for (int i = 0; i < 3; ++i) harness.add(adapter_request("a" + std::to_string(i), 7, 8, 20));
  harness.add(adapter_request("base", 0, 8, 20));
  EXPECT_EQ(harness.core->stats().adapters, (std::vector<AdapterLoad>{{7, 0, 3}}));
  harness.step();
  EXPECT_EQ(harness.core->stats().adapters, (std::vector<AdapterLoad>{{7, 1, 2}}));
  harness.run();
  EXPECT_TRUE(harness.core->stats().adapters.empty());
}

/// However requests arrive, an adapter with a running request is computed at least every ceil(A / cap) steps (and a
/// few, for steps in which preemption keeps everybody else from starting), and every request ends with its solo tokens.
void run_starvation_round(uint32_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto cap = static_cast<int64_t>(1 + random() % 4);
  HarnessOptions options = capped(cap);
  options.max_num_seqs = 2 + random() % 14;
  options.budget = 64 + random() % 100;
  options.config.enable_chunked_prefill = random() % 4 != 0;
  options.config.enable_prefix_caching = random() % 4 != 0;
  options.blocks = {static_cast<int64_t>(random() % 2 == 0 ? 1000 : 30)};
  options.max_model_len = options.config.enable_chunked_prefill ? 400 : options.budget;
  CoreHarness harness(options);
  constexpr uint64_t kAdapters = 9;
  std::map<std::string, EngineRequest> sent;
  int serial = 0;
  while (serial < 150 || harness.core->has_requests()) {
    ASSERT_LT(harness.steps, 30000) << "no end";
    // Most of the load is on adapter 1; the others come now and then.
    for (int i = static_cast<int>(random() % 3); i > 0 && serial < 150; --i, ++serial) {
      const uint64_t adapter = random() % 2 == 0 ? 1 : random() % kAdapters;
      const int64_t length = 1 + random() % std::min<int64_t>(options.max_model_len - 30, 120);
      EngineRequest request = adapter_request("r" + std::to_string(serial), adapter, length, 1 + random() % 25);
      sent[request.id] = request;
      harness.add(std::move(request));
    }
    harness.step();
  }
  harness.core->check_integrity();
  for (const FakeStep& step : harness.log->steps) {
    ASSERT_LE(static_cast<int64_t>(adapters_of(step).size()), cap);
    expect_segments(step);
  }
  for (const auto& [id, request] : sent) {
    ASSERT_EQ(harness.received[id].ends, 1);
    ASSERT_EQ(harness.received[id].tokens,
              reference_tokens(request.prompt, *request.sampling.max_tokens, request.adapter_id));
  }
}

TEST(AdapterTurns, NobodyStarvesWhateverComes) {
  for (uint32_t seed = 1; seed <= 60 && !testing::Test::HasFatalFailure(); ++seed) run_starvation_round(seed);
}

TEST(AdapterTurns, AFloodOnOneAdapterNeverStopsAnother) {
  // The flood never ends; the others come one by one, each only once the last has ended.
  for (const int64_t cap : {1, 3}) {
    HarnessOptions options = capped(cap);
    options.max_num_seqs = 8;
    CoreHarness harness(options);
    int flood = 0;
    for (uint64_t adapter = 2; adapter < 12; ++adapter) {
      const std::string id = "single" + std::to_string(adapter);
      harness.add(adapter_request(id, adapter, 40, 10));
      const int64_t begin = harness.steps;
      while (harness.received[id].ends == 0) {
        for (int i = 0; i < 4; ++i) harness.add(adapter_request("flood" + std::to_string(flood++), 1, 30, 50));
        harness.step();
        ASSERT_LE(harness.steps - begin, 2 * 12 + 4);
      }
    }
    for (int i = 0; i < flood; ++i) harness.core->abort("flood" + std::to_string(i));
    harness.run();
  }
}

}  // namespace
}  // namespace quire
