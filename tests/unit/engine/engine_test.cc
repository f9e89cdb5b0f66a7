// The engine with its thread: queues, aborts from other threads, faults, stop.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <map>
#include <thread>

#include "engine/core_harness.h"

namespace quire {
namespace {

/// Collects outputs across threads.
class Inbox {
 public:
  OutputCallback callback() {
    return [this](RequestOutput&& output) {
      const std::lock_guard lock(mutex_);
      for (const SampledToken& token : output.tokens) tokens_[output.id].push_back(token.token);
      if (output.finished()) ends_[output.id] = output;
      changed_.notify_all();
    };
  }
  RequestOutput wait_end(const std::string& id) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return ends_.contains(id); })) << id;
    return ends_[id];
  }
  void wait_tokens(const std::string& id, size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return tokens_[id].size() >= count; })) << id;
  }
  std::vector<int32_t> tokens(const std::string& id) {
    const std::lock_guard lock(mutex_);
    return tokens_[id];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<int32_t>> tokens_;
  std::map<std::string, RequestOutput> ends_;
};

struct Fixture {
  explicit Fixture(HarnessOptions options = {}, std::function<Status(const StepPlan&)> before_step = {}) {
    options.config.check_integrity_every_step = true;
    auto executor = std::make_unique<FakeExecutor>(options.groups, options.blocks, options.block_size, log);
    executor->before_step = std::move(before_step);
    engine = std::make_unique<Engine>(options.config, options.limits(), std::move(executor));
  }
  ~Fixture() {
    engine.reset();
    EXPECT_TRUE(log->errors.empty()) << log->errors.front();
  }
  Status submit(const std::string& id, std::vector<int32_t> prompt, int64_t max_tokens) {
    return engine->submit(CoreHarness::request(id, std::move(prompt), max_tokens), inbox.callback());
  }

  std::shared_ptr<FakeLog> log = std::make_shared<FakeLog>();
  Inbox inbox;
  std::unique_ptr<Engine> engine;
};

Status slow_step(const StepPlan&) {
  std::this_thread::sleep_for(std::chrono::microseconds(200));
  return {};
}

TEST(Engine, ServesRequestsOfManyThreads) {
  HarnessOptions options;
  options.blocks = {40};
  options.max_model_len = 200;
  Fixture fixture(options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&fixture, t] {
      for (int i = 0; i < 10; ++i) {
        const std::string id = std::to_string(t) + "-" + std::to_string(i);
        EXPECT_TRUE(fixture.submit(id, make_prompt(20 + i, t), 30).ok());
        if (i % 5 == 4) fixture.engine->abort(id);
        (void)fixture.engine->stats();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 4; ++t) {
    for (int i = 0; i < 10; ++i) {
      const std::string id = std::to_string(t) + "-" + std::to_string(i);
      const RequestOutput end = fixture.inbox.wait_end(id);
      if (end.finish_reason == FinishReason::kAbort) continue;
      EXPECT_EQ(fixture.inbox.tokens(id), reference_tokens(make_prompt(20 + i, t), 30));
      EXPECT_LE(end.usage.arrival_time, end.usage.scheduled_time);
      EXPECT_LE(end.usage.scheduled_time, end.usage.first_token_time);
      EXPECT_LE(end.usage.first_token_time, end.usage.last_token_time);
      EXPECT_EQ(end.usage.completion_tokens, 30);
    }
  }
  const EngineStats stats = fixture.engine->stats();
  EXPECT_EQ(stats.finished_length + stats.finished_abort, 40);
  EXPECT_EQ(stats.running + stats.waiting, 0);
}

TEST(Engine, METR_01_AbortsAreCountedAndIdsComeFree) {
  Fixture fixture({}, slow_step);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(fixture.submit("r" + std::to_string(i), make_prompt(10, i), 3000).ok());
  EXPECT_FALSE(fixture.submit("r0", make_prompt(10), 5).ok()) << "the id is in use";
  fixture.inbox.wait_tokens("r0", 3);
  for (int i = 0; i < 5; ++i) fixture.engine->abort("r" + std::to_string(i));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(fixture.inbox.wait_end("r" + std::to_string(i)).finish_reason, FinishReason::kAbort);
  }
  EXPECT_EQ(fixture.engine->stats().finished_abort, 5);
  EXPECT_TRUE(fixture.submit("r0", make_prompt(10), 5).ok());
}

TEST(Engine, CHNK_04_ARequestThatCanNeverFitIsRefusedAndTheNextIsServed) {
  HarnessOptions options;
  options.blocks = {16};
  options.max_model_len = 1024;
  Fixture fixture(options);
  const Status refused = fixture.submit("big", make_prompt(600), 10);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("600"), std::string::npos);
  EXPECT_NE(refused.error().message.find("256"), std::string::npos);
  EXPECT_TRUE(fixture.submit("small", make_prompt(20), 10).ok());
  EXPECT_EQ(fixture.inbox.wait_end("small").finish_reason, FinishReason::kLength);
}

TEST(Engine, DestructorEndsWhatRuns) {
  Inbox inbox;
  {
    Fixture fixture({}, slow_step);
    EXPECT_TRUE(fixture.engine->submit(CoreHarness::request("running", make_prompt(10), 3000), inbox.callback()).ok());
    inbox.wait_tokens("running", 1);
    EXPECT_TRUE(fixture.engine->submit(CoreHarness::request("queued", make_prompt(10), 3000), inbox.callback()).ok());
  }
  EXPECT_EQ(inbox.wait_end("running").finish_reason, FinishReason::kAbort);
  EXPECT_EQ(inbox.wait_end("queued").finish_reason, FinishReason::kAbort);
}

TEST(Engine, AFailedStepLeavesTheEngineHealthy) {
  std::atomic<bool> fail{true};
  Fixture fixture({}, [&](const StepPlan&) -> Status {
    return fail.exchange(false) ? Status(internal_error("a rank is gone")) : Status();
  });
  EXPECT_TRUE(fixture.submit("first", make_prompt(10), 5).ok());
  const RequestOutput end = fixture.inbox.wait_end("first");
  EXPECT_EQ(end.finish_reason, FinishReason::kError);
  EXPECT_EQ(end.error->message, "a rank is gone");
  EXPECT_TRUE(fixture.engine->healthy());
  EXPECT_TRUE(fixture.submit("second", make_prompt(10), 5).ok());
  EXPECT_EQ(fixture.inbox.wait_end("second").finish_reason, FinishReason::kLength);
}

TEST(Engine, CallbacksMaySubmitAbortAndReset) {
  Fixture fixture;
  std::promise<void> done;
  const auto again = [&](RequestOutput&& output) {
    if (!output.finished()) return;
    fixture.engine->reset_prefix_cache();
    fixture.engine->abort("nobody");
    EXPECT_TRUE(fixture.engine
                    ->submit(CoreHarness::request("same", make_prompt(5), 2),
                             [&](RequestOutput&& last) {
                               if (last.finished()) done.set_value();
                             })
                    .ok());
  };
  EXPECT_TRUE(fixture.engine->submit(CoreHarness::request("same", make_prompt(5), 2), again).ok());
  EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST(Engine, ResetWaitsForTheEngineThreadAndTheObserverCountsTokens) {
  Fixture fixture;
  std::atomic<int64_t> tokens{0};
  fixture.engine->set_step_observer([&](int64_t step) { tokens += step; });
  EXPECT_TRUE(fixture.submit("a", make_prompt(40), 5).ok());
  fixture.inbox.wait_end("a");
  EXPECT_TRUE(fixture.engine->reset_prefix_cache());
  EXPECT_EQ(tokens, 44);
  EXPECT_TRUE(fixture.submit("b", make_prompt(40), 5).ok());
  EXPECT_EQ(fixture.inbox.wait_end("b").usage.cached_tokens, 0);
}

}  // namespace
}  // namespace quire
