#include "cli/engine_flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/program.h"

namespace quire::cli {
namespace {

EngineArguments parse(std::vector<std::string> words) {
  CLI::App app;
  EngineArguments arguments;
  FlagSet flags(app);
  add_engine_flags(flags, arguments);
  words = normalize_arguments(words);
  std::reverse(words.begin(), words.end());
  app.parse(words);
  check_engine_arguments(arguments);
  return arguments;
}

TEST(EngineFlags, DefaultsAreTheConfigs) {
  const EngineConfig config = parse({}).config;
  EXPECT_FALSE(config.dtype || config.kv_cache_dtype || config.max_model_len || config.max_num_seqs);
  EXPECT_TRUE(config.enable_prefix_caching && config.enable_chunked_prefill && config.use_generation_config);
  EXPECT_EQ(config.block_size, 16);
}

TEST(EngineFlags, EveryFlagReachesItsField) {
  const EngineArguments arguments = parse({"--dtype",
                                           "half",
                                           "--max-model-len",
                                           "4K",
                                           "--block-size",
                                           "32",
                                           "--kv-cache-memory-bytes",
                                           "1.5g",
                                           "--kv-cache-dtype",
                                           "float32",
                                           "--no-enable-prefix-caching",
                                           "--no-enable-chunked-prefill",
                                           "--max-num-batched-tokens",
                                           "8k",
                                           "--max-num-seqs",
                                           "7",
                                           "--scheduling-policy",
                                           "priority",
                                           "--max-logprobs",
                                           "-1",
                                           "--seed",
                                           "5",
                                           "--threads",
                                           "3",
                                           "--num-gpu-blocks-override",
                                           "99",
                                           "--tokenizer",
                                           "t",
                                           "--chat-template",
                                           "c",
                                           "--generation-config",
                                           "vllm"});
  const EngineConfig& config = arguments.config;
  EXPECT_EQ(config.dtype, DType::kFloat16);
  EXPECT_EQ(config.max_model_len, 4096);
  EXPECT_EQ(config.block_size, 32);
  EXPECT_EQ(config.kv_cache_memory_bytes, 1'500'000'000);
  EXPECT_EQ(config.kv_cache_dtype, DType::kFloat32);
  EXPECT_FALSE(config.enable_prefix_caching);
  EXPECT_FALSE(config.enable_chunked_prefill);
  EXPECT_EQ(config.max_num_batched_tokens, 8000);
  EXPECT_EQ(config.max_num_seqs, 7);
  EXPECT_EQ(config.scheduling_policy, SchedulingPolicy::kPriority);
  EXPECT_EQ(config.max_logprobs, -1);
  EXPECT_EQ(config.seed, 5);
  EXPECT_EQ(config.threads, 3);
  EXPECT_EQ(config.num_kv_blocks_override, 99);
  EXPECT_EQ(arguments.tokenizer, "t");
  EXPECT_EQ(arguments.chat_template, "c");
  EXPECT_FALSE(config.use_generation_config);
}

TEST(EngineFlags, AutoLengthAndLastValueCounts) {
  EXPECT_EQ(parse({"--max-model-len", "auto"}).config.max_model_len, -1);
  EXPECT_EQ(parse({"--max-model-len", "-1"}).config.max_model_len, -1);
  EXPECT_EQ(parse({"--max-model-len=-1"}).config.max_model_len, -1);
  EXPECT_EQ(parse({"--seed", "1", "--seed", "2"}).config.seed, 2);
  EXPECT_EQ(parse({"--long_prefill_token_threshold", "64"}).config.long_prefill_token_threshold, 64);
}

TEST(EngineFlags, NeutralValuesOfUnbuiltFlagsPass) {
  EXPECT_NO_THROW(parse({"-tp", "1", "--pipeline-parallel-size=1", "--nnodes", "1", "--enforce-eager", "-O2",
                         "--load-format", "auto", "--prefix-caching-hash-algo", "sha256"}));
  EXPECT_THROW(parse({"--speculative-config", "{}"}), FlagError);
  EXPECT_THROW(parse({"--quantization", "awq"}), FlagError);
  EXPECT_EQ(parse({"--quantization", "int8", "--quantize-lm-head"}).config.quantization, "int8");
}

}  // namespace
}  // namespace quire::cli
