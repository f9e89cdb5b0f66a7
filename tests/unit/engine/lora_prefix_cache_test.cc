// The prefix cache with real adapters: pages of one never serve another, nor the base model, and answers from the cache
// are those without it bit for bit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine_core.h"
#include "engine/parity.h"

namespace quire::testing {
namespace {

constexpr int64_t kPromptTokens = 65;
constexpr int64_t kFullPages = 64;
constexpr int64_t kScores = 20;

std::vector<int32_t> shared_prompt() {
  std::vector<int32_t> prompt{1};
  for (int32_t i = 1; i < kPromptTokens; ++i) prompt.push_back(5 + (i * 41) % 490);
  return prompt;
}

/// A golden model behind the scheduler and its cache.
class CachedModel {
 public:
  CachedModel(const std::string& model, bool caching) : folder_(golden_models() + "/" + model) {
    EngineConfig config;
    config.model = folder_;
    config.offline = true;
    config.dtype = DType::kFloat32;
    config.num_kv_blocks_override = 256;
    config.threads = 2;
    config.enable_prefix_caching = caching;
    config.check_integrity_every_step = true;
    LoadedExecutor loaded =
        std::move(create_executor(config, std::move(open_checkpoint(folder_)).value(), nullptr)).value();
    core_ = std::make_unique<EngineCore>(config, loaded.limits, std::move(loaded.executor));
  }

  /// A load has a new id each time, also of the same folder.
  uint64_t load(const std::string& adapter) {
    const auto files = std::move(AdapterFiles::open(folder_ + "/" + adapter)).value();
    const auto summary = core_->executor().load_adapter(++last_adapter_, *files);
    if (!summary.ok()) throw std::runtime_error(summary.error().message);
    return last_adapter_;
  }

  struct Answer {
    std::vector<int32_t> tokens;
    std::vector<std::pair<int32_t, float>> scores;
    int64_t cached_tokens = 0;
  };

  /// The answers to one prompt, asked by all these adapters (0: the base model) at once.
  std::vector<Answer> ask(const std::vector<int32_t>& prompt, const std::vector<uint64_t>& adapters) {
    std::vector<Answer> answers(adapters.size());
    for (size_t i = 0; i < adapters.size(); ++i) {
      EngineRequest request;
      request.id = "request " + std::to_string(++requests_);
      request.prompt = prompt;
      request.adapter_id = adapters[i];
      request.sampling.temperature = 0;
      request.sampling.max_tokens = 6;
      request.sampling.ignore_eos = true;
      request.sampling.logprobs = kScores;
      core_->add(
          std::move(request),
          [&answer = answers[i]](RequestOutput&& output) {
            for (const SampledToken& token : output.tokens) {
              answer.tokens.push_back(token.token);
              for (const TokenLogprob& score : token.logprobs) answer.scores.emplace_back(score.token, score.logprob);
            }
            answer.cached_tokens = output.usage.cached_tokens;
          },
          0);
    }
    while (core_->has_requests()) {
      core_->step();
      core_->deliver();
    }
    core_->deliver();
    return answers;
  }
  Answer ask(const std::vector<int32_t>& prompt, uint64_t adapter) { return ask(prompt, std::vector{adapter}).front(); }

 private:
  std::string folder_;
  std::unique_ptr<EngineCore> core_;
  uint64_t last_adapter_ = 0;
  int requests_ = 0;
};

void expect_same(const CachedModel::Answer& got, const CachedModel::Answer& expected) {
  EXPECT_EQ(got.tokens.size(), 6u);
  EXPECT_EQ(got.tokens, expected.tokens);
  EXPECT_EQ(got.scores, expected.scores);
}

struct Case {
  const char* model;
  std::vector<std::string> adapters;
};

class LoraPrefixCache : public ::testing::TestWithParam<Case> {};

TEST_P(LoraPrefixCache, LORA_22_PagesAreOfOneAdapterAndGiveTheSameAnswers) {
  CachedModel cached(GetParam().model, true), uncached(GetParam().model, false);
  const std::vector<int32_t> prompt = shared_prompt();
  std::vector<uint64_t> ids = {0};
  for (const std::string& adapter : GetParam().adapters) {
    ids.push_back(cached.load(adapter));
    ASSERT_EQ(uncached.load(adapter), ids.back());
  }
  std::vector<CachedModel::Answer> expected;
  for (const uint64_t id : ids) {
    expected.push_back(uncached.ask(prompt, id));
    EXPECT_EQ(expected.back().cached_tokens, 0);
  }
  for (size_t i = 1; i < ids.size(); ++i) {
    for (size_t k = 0; k < i; ++k) EXPECT_NE(expected[i].scores, expected[k].scores) << i << ", " << k;
  }
  // The base, each adapter, and all of them again: only a second request finds pages.
  for (const int64_t hits : {int64_t{0}, kFullPages}) {
    for (size_t i = 0; i < ids.size(); ++i) {
      SCOPED_TRACE("adapter " + std::to_string(i));
      const CachedModel::Answer answer = cached.ask(prompt, ids[i]);
      expect_same(answer, expected[i]);
      EXPECT_EQ(answer.cached_tokens, hits);
    }
  }
  // All in one batch, each from its own pages.
  const std::vector<CachedModel::Answer> together = cached.ask(prompt, ids);
  for (size_t i = 0; i < ids.size(); ++i) {
    expect_same(together[i], expected[i]);
    EXPECT_EQ(together[i].cached_tokens, kFullPages);
  }
  // Part of the prompt from the cache, the rest computed.
  std::vector<int32_t> other = prompt;
  other[40] += 1;
  for (const uint64_t id : ids) {
    const CachedModel::Answer answer = cached.ask(other, id);
    expect_same(answer, uncached.ask(other, id));
    EXPECT_EQ(answer.cached_tokens, 32);
  }
  // Another load of a folder finds nothing of the first.
  const CachedModel::Answer reloaded = cached.ask(prompt, cached.load(GetParam().adapters[0]));
  expect_same(reloaded, expected[1]);
  EXPECT_EQ(reloaded.cached_tokens, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Models, LoraPrefixCache,
    ::testing::Values(Case{"llama", {"all-r8", "dora-embedding", "tokens", "lora-bias", "trained-head"}},
                      Case{"llama-tied-bias",
                           {"tied-embedding-r4", "tied-trained-embedding", "tied-tokens", "bias-r4"}}),
    [](const auto& info) { return std::string(info.param.model) == "llama" ? "llama" : "llama_tied_bias"; });

}  // namespace
}  // namespace quire::testing
