// Runs an EngineCore over the fake executor, without a thread, and keeps what each request was given.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/admission.h"
#include "engine/engine_core.h"
#include "engine/fake_executor.h"

namespace quire {

struct HarnessOptions {
  std::vector<KvCacheGroup> groups = {full_group()};
  std::vector<int64_t> blocks = {1000};
  int64_t block_size = 16;
  int64_t max_model_len = 4096;
  int64_t budget = 256;
  int64_t max_num_seqs = 64;
  std::optional<double> target_itl_seconds;
  EngineConfig config;

  EngineLimits limits() const {
    EngineLimits limits;
    limits.max_model_len = max_model_len;
    limits.block_size = block_size;
    limits.num_blocks = blocks.front();
    limits.blocks_per_group = blocks;
    limits.max_num_batched_tokens = budget;
    limits.max_num_seqs = max_num_seqs;
    limits.target_itl_seconds = target_itl_seconds;
    limits.max_logprobs = 20;
    limits.vocab_size = kFakeVocabulary;
    return limits;
  }
};

/// Prompts run whole, and a step has room for the longest request that is allowed.
inline HarnessOptions without_chunking(int64_t max_model_len, int64_t max_num_seqs) {
  HarnessOptions options;
  options.config.enable_chunked_prefill = false;
  options.max_model_len = max_model_len;
  options.budget = max_model_len;
  options.max_num_seqs = max_num_seqs;
  return options;
}

struct Received {
  std::vector<int32_t> tokens;
  std::vector<SampledToken> prompt_logprobs;
  int prompt_logprob_outputs = 0;
  RequestOutput last;
  int ends = 0;
  int64_t first_token_step = -1;  ///< steps run before the first token came
};

class CoreHarness {
 public:
  explicit CoreHarness(HarnessOptions options) : options_(std::move(options)) {
    options_.config.check_integrity_every_step = true;
    auto executor = std::make_unique<FakeExecutor>(options_.groups, options_.blocks, options_.block_size, log);
    fake = executor.get();
    core = std::make_unique<EngineCore>(options_.config, options_.limits(), std::move(executor));
  }
  ~CoreHarness() {
    EXPECT_TRUE(log->errors.empty()) << log->errors.front() << " (" << log->errors.size() << " errors)";
  }

  static EngineRequest request(const std::string& id, std::vector<int32_t> prompt, int64_t max_tokens) {
    EngineRequest request;
    request.id = id;
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    request.sampling.max_tokens = max_tokens;
    return request;
  }

  void add(EngineRequest request) {
    Received& slot = received[request.id];
    core->add(
        std::move(request), [this, &slot](RequestOutput&& output) { take(slot, std::move(output)); }, 0);
  }
  void add(const std::string& id, std::vector<int32_t> prompt, int64_t max_tokens) {
    add(request(id, std::move(prompt), max_tokens));
  }

  void step() {
    core->step();
    core->deliver();
    ++steps;
  }
  /// Runs until nothing is left; a run that does not end is a failure.
  void run(int64_t limit = 200000) {
    while (core->has_requests()) {
      if (limit-- == 0) FAIL() << "the engine makes no end";
      step();
    }
    core->deliver();
    core->check_integrity();
  }

  std::shared_ptr<FakeLog> log = std::make_shared<FakeLog>();
  FakeExecutor* fake = nullptr;
  std::unique_ptr<EngineCore> core;
  std::map<std::string, Received> received;
  int64_t steps = 0;

 private:
  void take(Received& slot, RequestOutput&& output) {
    EXPECT_EQ(slot.ends, 0) << "an output after the last one";
    for (const SampledToken& token : output.tokens) slot.tokens.push_back(token.token);
    if (!output.tokens.empty() && slot.first_token_step < 0) slot.first_token_step = steps;
    slot.prompt_logprob_outputs += output.prompt_logprobs.empty() ? 0 : 1;
    for (SampledToken& scored : output.prompt_logprobs) slot.prompt_logprobs.push_back(std::move(scored));
    slot.ends += output.finished() ? 1 : 0;
    slot.last = std::move(output);
  }

  HarnessOptions options_;
};

/// `length` tokens that differ for each `salt`.
inline std::vector<int32_t> make_prompt(int64_t length, int32_t salt = 0) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < length; ++i)
    prompt.push_back(static_cast<int32_t>((i * 7 + salt * 131 + 3) % kFakeVocabulary));
  return prompt;
}

}  // namespace quire
