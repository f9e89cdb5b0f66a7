// Text, stops, aborts and counts through the real engine with a scripted model.
#include "api/async_llm.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <limits>
#include <numeric>
#include <thread>

#include "fake_model.h"

namespace quire {
namespace {

using test::Collected;
using test::FakeService;

SamplingParams with_max_tokens(int64_t max_tokens) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  return params;
}

std::string joined(const std::vector<std::string>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::string());
}

TEST(AsyncLlm, TextIsTheTokensText) {
  FakeService service;
  const std::string text = " answers are long, and héllo wörld too.";
  const std::vector<int32_t> tokens = service.encode(text);
  const Collected all = service.run(1, tokens, with_max_tokens(static_cast<int64_t>(tokens.size())));
  EXPECT_EQ(all.text, text);
  EXPECT_EQ(all.token_ids, tokens);
  EXPECT_EQ(all.last.finish_reason, FinishReason::kLength);
  EXPECT_EQ(all.last.usage.completion_tokens, static_cast<int64_t>(tokens.size()));
  EXPECT_EQ(all.finals, 1);
}

TEST(AsyncLlm, STRM_01_NoHalfCharacters) {
  FakeService service;
  const std::string text = " 😀 日本語 👩‍👩‍👧 café";
  const std::vector<int32_t> tokens = service.encode(text);
  const Collected all = service.run(1, tokens, with_max_tokens(static_cast<int64_t>(tokens.size())));
  EXPECT_EQ(all.text, text);
  for (const std::string& delta : all.deltas) EXPECT_EQ(delta.find("\xEF\xBF\xBD"), std::string::npos);
}

TEST(AsyncLlm, SAMP_13_StopStringOverTokenBorders) {
  FakeService service;
  const std::string text = " one two three four five six";
  const std::vector<int32_t> tokens = service.encode(text);
  uint64_t id = 0;
  for (const std::string stop : {"o thr", "ee f", "five", " ", "x"}) {
    for (const bool include : {false, true}) {
      SamplingParams params = with_max_tokens(100);
      params.stop = {"never", stop};
      params.include_stop_str_in_output = include;
      const Collected all = service.run(++id, tokens, params);
      EXPECT_EQ(all.text, text.substr(0, text.find(stop) + (include ? stop.size() : 0))) << stop;
      EXPECT_EQ(all.last.finish_reason, FinishReason::kStop);
      EXPECT_EQ(all.last.stop_string, stop);
      EXPECT_FALSE(all.last.stop_token_id);
      // The tokens given out are those up to the one that completed the stop string, and they are what is counted.
      EXPECT_EQ(all.last.usage.completion_tokens, static_cast<int64_t>(all.token_ids.size()));
      EXPECT_TRUE(std::equal(all.token_ids.begin(), all.token_ids.end(), tokens.begin()));
      const size_t before = all.token_ids.size() - 1;
      const std::string shorter = service.llm->tokenizer().decode(std::span(tokens).first(before), true).value();
      EXPECT_EQ(shorter.find(stop), std::string::npos);
    }
  }
}

TEST(AsyncLlm, SAMP_14_HeldTextComesAtTheEnd) {
  FakeService service;
  std::vector<int32_t> tokens = service.encode(" say abc");
  SamplingParams params = with_max_tokens(static_cast<int64_t>(tokens.size()));
  params.stop = {"abcX"};
  EXPECT_EQ(service.run(1, tokens, params).text, " say abc");
  tokens.push_back(2);  // EOS
  params.max_tokens = 50;
  const Collected all = service.run(2, tokens, params);
  EXPECT_EQ(all.text, " say abc");
  EXPECT_EQ(all.last.finish_reason, FinishReason::kStop);
  EXPECT_FALSE(all.last.stop_string);
  EXPECT_FALSE(all.last.stop_token_id);
  EXPECT_EQ(all.token_ids, tokens);
}

TEST(AsyncLlm, StopTokensHaveNoTextUnlessWanted) {
  FakeService service;
  const std::vector<int32_t> tokens = service.encode(" alpha beta 7");
  const std::string whole = service.llm->tokenizer().decode(tokens, true).value();
  SamplingParams params = with_max_tokens(50);
  params.stop_token_ids = {tokens.back()};
  const Collected without = service.run(1, tokens, params);
  EXPECT_LT(without.text.size(), whole.size());
  EXPECT_EQ(without.last.stop_token_id, tokens.back());
  params.include_stop_str_in_output = true;
  EXPECT_EQ(service.run(2, tokens, params).text, whole);
}

TEST(AsyncLlm, IgnoreEosGoesOn) {
  FakeService service;
  std::vector<int32_t> tokens = service.encode(" alpha");
  tokens.push_back(2);
  SamplingParams params = with_max_tokens(30);
  params.ignore_eos = true;
  const Collected all = service.run(1, tokens, params);
  EXPECT_EQ(all.token_ids.size(), 30u);
  EXPECT_EQ(all.last.finish_reason, FinishReason::kLength);
}

TEST(AsyncLlm, LogprobsAndTokenTexts) {
  FakeService service;
  const std::string text = " naïve 😀 text";
  const std::vector<int32_t> tokens = service.encode(text);
  SamplingParams params = with_max_tokens(static_cast<int64_t>(tokens.size()));
  params.logprobs = 2;
  params.prompt_logprobs = 0;
  const Collected all = service.run(1, tokens, params);
  EXPECT_EQ(all.tokens.size(), tokens.size());
  EXPECT_EQ(all.token_texts.size(), tokens.size());
  EXPECT_EQ(joined(all.token_texts), text);
  for (const SampledToken& token : all.tokens) EXPECT_EQ(token.logprobs.size(), 3u);
  EXPECT_EQ(all.prompt_logprobs.size(), static_cast<size_t>(all.last.usage.prompt_tokens - 1));
}

TEST(AsyncLlm, SAMP_05_07_BadParametersCostOnlyTheRequest) {
  FakeService service;
  SamplingParams params;
  params.temperature = std::numeric_limits<double>::quiet_NaN();
  const Status status = service.submit(1, {}, params);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().param, "temperature");
  EXPECT_EQ(service.run(1, service.encode(" fine"), with_max_tokens(1)).finals, 1);
}

TEST(AsyncLlm, SAMP_21_IdsBeyondTheVocabulary) {
  FakeService service;
  TextRequest request;
  request.id = "x";
  request.prompt = {1, 999999};
  EXPECT_FALSE(service.llm->submit(request, [](TextOutput&&) { FAIL(); }).ok());
  request.prompt = {1, -1};
  EXPECT_FALSE(service.llm->submit(request, [](TextOutput&&) { FAIL(); }).ok());
  request.prompt = {};
  EXPECT_FALSE(service.llm->submit(request, [](TextOutput&&) { FAIL(); }).ok());
}

TEST(AsyncLlm, SAMP_25_MaxTokensIsCutToTheContext) {
  FakeService service;
  const Collected all = service.run(1, {}, with_max_tokens(2147483647));
  EXPECT_EQ(all.last.finish_reason, FinishReason::kLength);
  EXPECT_EQ(all.last.usage.prompt_tokens + all.last.usage.completion_tokens, 512);
}

TEST(AsyncLlm, SAMP_13_MinTokensKeepsStopStringsOff) {
  FakeService service;
  const std::string text = " one two one two three";
  const std::vector<int32_t> tokens = service.encode(text);
  SamplingParams params = with_max_tokens(100);
  params.stop = {"two"};
  params.min_tokens = 0;
  EXPECT_EQ(service.run(1, tokens, params).text, " one ");
  // Tokens up to the one that completes the first "two" do not end the answer.
  size_t until = 0;
  while (service.llm->tokenizer().decode(std::span(tokens).first(until), true).value().find("two") == std::string::npos)
    ++until;
  params.min_tokens = static_cast<int64_t>(until);
  const Collected all = service.run(2, tokens, params);
  EXPECT_EQ(all.text, " one two one ");
  EXPECT_EQ(all.last.stop_string, "two");
  params.min_tokens = static_cast<int64_t>(until) - 1;
  EXPECT_EQ(service.run(3, tokens, params).text, " one ");
}

TEST(AsyncLlm, SAMP_10_MinTokensOutranksEveryEnd) {
  FakeService service;
  std::vector<int32_t> tokens = service.encode(" alpha");
  tokens.insert(tokens.begin(), {2, 2});
  SamplingParams params = with_max_tokens(30);
  params.min_tokens = 2;
  tokens.push_back(2);
  const Collected all = service.run(1, tokens, params);
  EXPECT_EQ(all.token_ids, tokens);
  EXPECT_EQ(all.last.finish_reason, FinishReason::kStop);
}

TEST(AsyncLlm, RepetitionEndsTheAnswer) {
  FakeService service;
  SamplingParams params = with_max_tokens(100);
  params.repetition_detection = {2, 1, 4};
  const Collected all = service.run(1, service.encode(" alpha beta gamma"), params);  // then the filler without end
  EXPECT_EQ(all.last.finish_reason, FinishReason::kRepetition);
  EXPECT_EQ(all.token_ids.size(), service.encode(" alpha beta gamma").size() + 4);
}

/// The outputs of each choice of one request.
std::vector<Collected> run_choices(FakeService& service, const std::string& id, SamplingParams params) {
  std::vector<Collected> choices(static_cast<size_t>(params.n));
  std::promise<void> done;
  size_t left = choices.size();
  TextRequest request{.id = id, .prompt = std::vector<int32_t>(100, 9), .sampling = std::move(params)};
  service.set_script(77, {100, service.encode(" all say the same thing")});
  request.sampling.seed = 77;
  const Status status = service.llm->submit(std::move(request), [&](TextOutput&& output) {
    Collected& choice = choices[static_cast<size_t>(output.choice)];
    choice.text += output.text;
    choice.token_ids.insert(choice.token_ids.end(), output.token_ids.begin(), output.token_ids.end());
    choice.prompt_logprobs.insert(choice.prompt_logprobs.end(), output.prompt_logprobs.begin(),
                                  output.prompt_logprobs.end());
    EXPECT_EQ(choice.finals, 0);
    choice.finals += output.finished() ? 1 : 0;
    choice.last = std::move(output);
    if (choice.finals == 1 && --left == 0) done.set_value();
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  return choices;
}

TEST(AsyncLlm, SAMP_23_EveryChoiceComes) {
  FakeService service;
  for (int repeat = 0; repeat < 10; ++repeat) {
    SamplingParams params = with_max_tokens(5);
    params.n = 8;
    params.prompt_logprobs = 0;
    const std::vector<Collected> choices = run_choices(service, "r" + std::to_string(repeat), params);
    for (size_t i = 0; i < choices.size(); ++i) {
      EXPECT_EQ(choices[i].finals, 1);
      EXPECT_EQ(choices[i].token_ids.size(), 5u);
      EXPECT_EQ(choices[i].prompt_logprobs.size(), i == 0 ? 99u : 0u);
      // 100 tokens are six whole pages and a rest.
      EXPECT_EQ(choices[i].last.usage.cached_tokens, i > 0 ? 96 : choices[i].last.usage.cached_tokens);
    }
  }
}

TEST(AsyncLlm, STRM_07_AbortEndsAllChoices) {
  FakeService service;
  for (const int wait : {0, 1, 20}) {
    service.set_script(5, {100, {}});
    std::mutex mutex;
    std::condition_variable ended;
    int outputs = 0, finals = 0;
    TextRequest request{.id = "a", .prompt = std::vector<int32_t>(100, 9), .sampling = with_max_tokens(400)};
    request.sampling.n = 6;
    request.sampling.seed = 5;
    ASSERT_TRUE(service.llm
                    ->submit(std::move(request),
                             [&](TextOutput&& output) {
                               const std::lock_guard lock(mutex);
                               ++outputs;
                               finals += output.finished() ? 1 : 0;
                               ended.notify_all();
                             })
                    .ok());
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return outputs >= wait; });
    lock.unlock();
    service.llm->abort("a");
    lock.lock();
    EXPECT_TRUE(ended.wait_for(lock, std::chrono::seconds(30), [&] { return finals == 6; }));
  }
}

TEST(AsyncLlm, STRM_07_AbortEndsWithOneLastOutput) {
  FakeService service;
  for (uint64_t id = 1; id <= 20; ++id) {
    ASSERT_TRUE(service.submit(id, {}, with_max_tokens(400)).ok());
    if (id % 2 == 0) service.llm->abort("r" + std::to_string(id));
  }
  for (uint64_t id = 1; id <= 20; ++id) service.llm->abort("r" + std::to_string(id));
  for (uint64_t id = 1; id <= 20; ++id) {
    const FinishReason reason = service.wait(id).last.finish_reason;
    EXPECT_TRUE(reason == FinishReason::kAbort || reason == FinishReason::kLength);
  }
  service.llm->abort("nobody");
  service.llm->abort("r1");
}

TEST(AsyncLlm, AbortFromACallback) {
  FakeService service;
  std::atomic<int> seen{0};
  ASSERT_TRUE(service
                  .submit(1, {}, with_max_tokens(400),
                          [&](TextOutput&&) {
                            if (++seen == 3) service.llm->abort("r1");
                          })
                  .ok());
  const Collected all = service.wait(1);
  EXPECT_GE(all.token_ids.size(), 3u);
}

TEST(AsyncLlm, IdsAreUniqueWhileTheyRunAndFreeAfterwards) {
  FakeService service;
  std::vector<int32_t> tokens = service.encode(" stop here please");
  SamplingParams params = with_max_tokens(400);
  // The first one's outputs wait until the second was judged: it is still running then.
  std::promise<void> judged;
  const std::shared_future<void> wait_for_judgement = judged.get_future().share();
  ASSERT_TRUE(service.submit(1, {}, params, [=](TextOutput&&) { wait_for_judgement.wait(); }).ok());
  const Status again = service.submit(1, {}, params);
  judged.set_value();
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().param, "request_id");
  service.llm->abort("r1");
  service.wait(1);
  // A stop string ends a request before the engine does; its id may be used at once, from the last output on.
  std::atomic<bool> reused{false};
  params.stop = {"here"};
  ASSERT_TRUE(service
                  .submit(2, tokens, params,
                          [&](TextOutput&& output) {
                            if (!output.finished()) return;
                            TextRequest request;
                            request.id = "r2";
                            request.prompt = {5, 6};
                            request.sampling.seed = 2;
                            request.sampling.max_tokens = 1;
                            reused = service.llm->submit(request, [](TextOutput&&) {}).ok();
                          })
                  .ok());
  service.wait(2);
  EXPECT_TRUE(reused);
}

TEST(AsyncLlm, ManyAtOnceKeepTheirTexts) {
  FakeService service;
  constexpr uint64_t kThreads = 4, kEach = 30;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t k = 0; k < kEach; ++k) {
        const uint64_t id = t * kEach + k;
        std::vector<int32_t> tokens = service.encode(" number " + std::to_string(id) + " END and more and more");
        SamplingParams params = with_max_tokens(60);
        if (id % 2 == 0) params.stop = {" END"};
        EXPECT_TRUE(service.submit(id, std::move(tokens), params).ok());
        if (id % 7 == 3) service.llm->abort("r" + std::to_string(id));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t id = 0; id < kThreads * kEach; ++id) {
    const Collected all = service.wait(id);
    const std::string start = " number " + std::to_string(id);
    if (all.last.finish_reason == FinishReason::kAbort) continue;
    if (id % 2 == 0) {
      EXPECT_EQ(all.text, start);
    } else {
      EXPECT_TRUE(all.text.starts_with(start + " END and more")) << all.text;
    }
  }
}

TEST(AsyncLlm, DestructionEndsWhatRuns) {
  std::atomic<int> finished{0};
  {
    FakeService service;
    for (uint64_t id = 0; id < 40; ++id) {
      SamplingParams params = with_max_tokens(400);
      if (id % 2 == 0) params.stop = {"never found"};
      ASSERT_TRUE(
          service.submit(id, {}, params, [&](TextOutput&& output) { finished += output.finished() ? 1 : 0; }).ok());
    }
  }
  EXPECT_EQ(finished, 40);
}

}  // namespace
}  // namespace quire
