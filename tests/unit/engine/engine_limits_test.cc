#include <gtest/gtest.h>

#include "engine/admission.h"
#include "engine/fake_executor.h"

namespace quire {
namespace {

Result<EngineLimits> settle(const EngineConfig& config, int64_t context = 2048, int64_t blocks = 1000) {
  return settle_limits(config, context, kFakeVocabulary, {blocks}, {full_group()});
}

void expect_refused(const EngineConfig& config, const std::string& words, int64_t blocks = 1000) {
  const Result<EngineLimits> limits = settle(config, 2048, blocks);
  ASSERT_FALSE(limits.ok()) << words;
  EXPECT_NE(limits.error().message.find(words), std::string::npos) << limits.error().message;
}

TEST(EngineLimits, DefaultsForServerAndOffline) {
  EngineConfig config;
  EXPECT_EQ(settle(config)->max_num_batched_tokens, 2048);
  EXPECT_EQ(settle(config)->max_num_seqs, 128);
  config.offline = true;
  EXPECT_EQ(settle(config)->max_num_batched_tokens, 4096);
  EXPECT_EQ(settle(config)->max_num_seqs, 256);
  EXPECT_EQ(settle(config)->max_model_len, 2048);
  config.enable_chunked_prefill = false;
  EXPECT_EQ(settle(config, 8192, 4000)->max_num_batched_tokens, 8192) << "a default budget holds a whole prompt";
}

TEST(EngineLimits, ABudgetTunesItselfUnlessItIsGivenOrPromptsRunWhole) {
  EngineConfig config;
  config.target_itl_ms = 50;
  EXPECT_EQ(settle(config)->target_itl_seconds, 0.05);
  config.enable_chunked_prefill = false;
  EXPECT_EQ(settle(config)->target_itl_seconds, std::nullopt);
  config.enable_chunked_prefill = true;
  config.max_num_batched_tokens = 512;
  EXPECT_EQ(settle(config)->target_itl_seconds, std::nullopt);
  config.target_itl_ms = 0;
  expect_refused(config, "--target-itl-ms is 0");
}

TEST(EngineLimits, CPUS_01_ContextIsCutToTheCache) {
  EngineConfig config;
  EXPECT_EQ(settle(config, 40960, 100)->max_model_len, 1600);
  config.max_model_len = -1;
  EXPECT_EQ(settle(config, 40960, 100)->max_model_len, 1600);
  EXPECT_EQ(settle(config, 1000, 100)->max_model_len, 1000);
  config.max_model_len = 1700;
  expect_refused(config, "--max-model-len is 1700, but the KV cache holds only 1600", 100);
}

TEST(EngineLimits, CHNK_12_BudgetBelowContextWithoutChunkingIsRefused) {
  EngineConfig config;
  config.enable_chunked_prefill = false;
  config.max_num_batched_tokens = 256;
  config.max_model_len = 1024;
  expect_refused(config, "at least the context length of 1024");
  config.enable_chunked_prefill = true;
  EXPECT_TRUE(settle(config).ok());
}

TEST(EngineLimits, CHNK_13_BudgetBelowSequencesIsRefusedOrCutsTheDefault) {
  EngineConfig config;
  config.max_num_batched_tokens = 4;
  EXPECT_EQ(settle(config)->max_num_seqs, 4);
  config.max_num_seqs = 8;
  expect_refused(config, "at least --max-num-seqs (8)");
}

TEST(EngineLimits, OtherContradictions) {
  const auto with = [](auto change) {
    EngineConfig config;
    change(config);
    return config;
  };
  expect_refused(with([](EngineConfig& c) { c.long_prefill_token_threshold = 3000; }), "must not exceed the context");
  expect_refused(with([](EngineConfig& c) { c.long_prefill_token_threshold = -1; }), "must not be negative");
  expect_refused(with([](EngineConfig& c) { c.max_model_len = 4096; }), "the model's context is 2048");
  expect_refused(with([](EngineConfig& c) { c.max_model_len = 0; }), "at least 1");
  expect_refused(with([](EngineConfig& c) { c.block_size = 20; }), "multiple of 16");
  expect_refused(with([](EngineConfig& c) { c.max_num_seqs = 0; }), "at least 1");
  expect_refused(EngineConfig{}, "does not hold one block", 0);
}

TEST(EngineLimits, AWindowThatFitsDoesNotLimitTheContext) {
  const Result<EngineLimits> limits = settle_limits({}, 32768, kFakeVocabulary, {300}, {sliding_group(1024)});
  EXPECT_EQ(limits->max_model_len, 32768);
  EXPECT_EQ(settle_limits({}, 32768, kFakeVocabulary, {100}, {sliding_group(1024)})->max_model_len, 1600);
}

TEST(Admission, CHNK_04_CHNK_14_RefusalsCarryBothNumbers) {
  EngineLimits limits = *settle({}, 1024);
  EngineRequest request;
  request.prompt.assign(1074, 1);
  const Status too_long = judge_request(request, limits, 1024);
  ASSERT_FALSE(too_long.ok());
  EXPECT_NE(too_long.error().message.find("1074"), std::string::npos);
  EXPECT_NE(too_long.error().message.find("1024"), std::string::npos);
  request.prompt.assign(600, 1);
  const Status no_blocks = judge_request(request, limits, 256);
  ASSERT_FALSE(no_blocks.ok());
  EXPECT_NE(no_blocks.error().message.find("600"), std::string::npos);
  EXPECT_NE(no_blocks.error().message.find("256"), std::string::npos);
  EXPECT_TRUE(judge_request(request, limits, 1024).ok());
  request.prompt = {1, 999999};
  EXPECT_EQ(judge_request(request, limits, 1024).error().param, "prompt");
  request.prompt = {};
  EXPECT_FALSE(judge_request(request, limits, 1024).ok());
}

}  // namespace
}  // namespace quire
