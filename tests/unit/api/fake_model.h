// A model that says what a script says: request seeds choose the script. With a real tokenizer and the real engine
// around it.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "api/async_llm.h"

namespace quire::test {

inline std::unique_ptr<Tokenizer> golden_tokenizer() {
  std::ifstream file(std::string(QUIRE_TESTS_DIR) + "/golden/models/llama/tokenizer.json");
  std::stringstream text;
  text << file.rdbuf();
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::from_json(text.str());
  EXPECT_TRUE(tokenizer.ok());
  return std::move(tokenizer).value();
}

/// Sequence with seed s gets scripts[s][k] as its k-th output token; beyond a script's end, `filler`.
class FakeExecutor : public Executor {
 public:
  struct Script {
    int64_t prompt_size = 0;
    std::vector<int32_t> tokens;
  };

  FakeExecutor() { groups_.push_back({KvCacheSpec{KvCacheKind::kFullAttention, 1, 8, 8, 0}, {0}}); }
  void set_script(uint64_t seed, Script script) {
    const std::lock_guard lock(mutex_);
    scripts_[seed] = std::move(script);
  }
  const std::vector<KvCacheGroup>& kv_cache_groups() const override { return groups_; }

  Status execute(const StepPlan& plan, StepResult& result) override {
    const std::lock_guard lock(mutex_);
    result.sequences.assign(plan.sequences.size(), {});
    for (size_t i = 0; i < plan.sequences.size(); ++i) {
      const ScheduledSequence& sequence = plan.sequences[i];
      for (const int32_t next : sequence.next_prompt_tokens)
        result.sequences[i].prompt_logprobs.push_back({next, {{next, -2.0f, 3}}});
      if (sequence.sample) result.sequences[i].token = next_token(sequence.sampling);
    }
    return {};
  }

 private:
  SampledToken next_token(const SamplingRow& row) const {
    const Script& script = scripts_.at(row.seed);
    const auto index = static_cast<size_t>(row.position - script.prompt_size);
    SampledToken token{index < script.tokens.size() ? script.tokens[index] : filler, {}};
    if (row.params->logprobs) {
      token.logprobs.push_back({token.token, -0.5f, 1});
      for (int64_t k = 0; k < *row.params->logprobs; ++k)
        token.logprobs.push_back({static_cast<int32_t>(k), -1.0f, k + 1});
    }
    return token;
  }

  static constexpr int32_t filler = 40;
  std::vector<KvCacheGroup> groups_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Script> scripts_;
};

/// Everything that one request got.
struct Collected {
  std::string text;
  std::vector<std::string> deltas;
  std::vector<int32_t> token_ids;
  std::vector<SampledToken> tokens;
  std::vector<std::string> token_texts;
  std::vector<SampledToken> prompt_logprobs;
  TextOutput last;
  int finals = 0;
};

/// A small service around an executor.
inline AsyncLlmParts small_parts(std::unique_ptr<Executor> executor, int32_t eos = 2) {
  AsyncLlmParts parts;
  parts.config.check_integrity_every_step = true;
  parts.limits.max_model_len = 512;
  parts.limits.block_size = 16;
  parts.limits.num_blocks = 512;
  parts.limits.kv_cache_tokens = 512 * 16;
  parts.limits.max_num_batched_tokens = 256;
  parts.limits.max_num_seqs = 32;
  parts.limits.max_logprobs = 20;
  parts.text.tokenizer = golden_tokenizer();
  parts.limits.vocab_size = parts.text.tokenizer->vocab_size();
  parts.model.eos_token_ids = {eos};
  parts.executor = std::move(executor);
  return parts;
}

class FakeService {
 public:
  explicit FakeService(int32_t eos = 2) {
    auto executor = std::make_unique<FakeExecutor>();
    executor_ = executor.get();
    AsyncLlmParts parts = small_parts(std::move(executor), eos);
    llm = AsyncLlm::from_parts(std::move(parts));
  }

  void set_script(uint64_t seed, FakeExecutor::Script script) { executor_->set_script(seed, std::move(script)); }
  std::vector<int32_t> encode(const std::string& text) const { return llm->tokenizer().encode(text, false).value(); }

  /// Queues a request whose answer is `tokens`; `id` numbers it.
  Status submit(uint64_t id, std::vector<int32_t> tokens, SamplingParams params, TextCallback also = {}) {
    TextRequest request;
    request.id = "r" + std::to_string(id);
    request.prompt = encode("The quick brown fox " + std::to_string(id));
    executor_->set_script(id, {static_cast<int64_t>(request.prompt.size()), std::move(tokens)});
    params.seed = static_cast<int64_t>(id);
    request.sampling = std::move(params);
    return llm->submit(std::move(request), [this, id, also](TextOutput&& output) {
      if (also) also(TextOutput(output));
      take(id, std::move(output));
    });
  }

  Collected wait(uint64_t id) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(ended_.wait_for(lock, std::chrono::seconds(30), [&] { return collected_[id].finals > 0; }));
    return collected_[id];
  }

  Collected run(uint64_t id, std::vector<int32_t> tokens, SamplingParams params) {
    const Status status = submit(id, std::move(tokens), std::move(params));
    EXPECT_TRUE(status.ok()) << status.error().message;
    return wait(id);
  }

  Collected peek(uint64_t id) {
    const std::lock_guard lock(mutex_);
    return collected_[id];
  }

 private:
  void take(uint64_t id, TextOutput&& output) {
    const std::lock_guard lock(mutex_);
    Collected& all = collected_[id];
    EXPECT_EQ(all.finals, 0) << "an output after the last one";
    all.text += output.text;
    all.deltas.push_back(output.text);
    all.token_ids.insert(all.token_ids.end(), output.token_ids.begin(), output.token_ids.end());
    all.tokens.insert(all.tokens.end(), output.tokens.begin(), output.tokens.end());
    all.token_texts.insert(all.token_texts.end(), output.token_texts.begin(), output.token_texts.end());
    all.prompt_logprobs.insert(all.prompt_logprobs.end(), output.prompt_logprobs.begin(), output.prompt_logprobs.end());
    all.finals += output.finished() ? 1 : 0;
    all.last = std::move(output);
    ended_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<uint64_t, Collected> collected_;
  FakeExecutor* executor_ = nullptr;

 public:
  std::unique_ptr<AsyncLlm> llm;  ///< destroyed first: its callbacks use what is above
};

}  // namespace quire::test
