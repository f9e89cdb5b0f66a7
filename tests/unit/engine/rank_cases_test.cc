// The cases of public bug reports about tensor parallelism, by their ids: shapes that do not divide, against one rank.
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/test_files.h"
#include "engine/parity.h"
#include "engine/tiny_checkpoint.h"
#include "lora/adapter_builder.h"

namespace quire::testing {
namespace {

constexpr double kTolerance = 1e-4;
constexpr double kMargin = 1e-3;  // below it the best two tokens are as good as equal

EngineConfig over_ranks(int ranks) {
  EngineConfig config;
  config.dtype = DType::kFloat32;
  config.tensor_parallel_size = ranks;
  config.threads = ranks;
  config.num_kv_blocks_override = 256;
  return config;
}

DecoderShape shape_of(int64_t heads, int64_t kv_heads, int64_t vocab = 101) {
  return {.vocab = vocab,
          .hidden = 64,
          .intermediate = 96,
          .layers = 2,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = 8};
}

std::vector<int32_t> prompt_for(int64_t vocab, int64_t length, int64_t step = 31) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>((i * i * step + 7 * i + 3) % vocab));
  return prompt;
}

/// Tokens are equal up to the first place where the best two are as good as equal, and so are the scores.
void expect_equal_within_rounding(const ParityModel::Answer& got, const ParityModel::Answer& expected) {
  ASSERT_EQ(got.prompt.size(), expected.prompt.size());
  for (size_t i = 0; i < got.prompt.size(); ++i) {
    ASSERT_NEAR(got.prompt[i][0].logprob, expected.prompt[i][0].logprob, kTolerance) << "prompt token " << i;
  }
  ASSERT_EQ(got.last.size(), expected.last.size());
  for (size_t id = 0; id < got.last.size(); ++id) ASSERT_NEAR(got.last[id], expected.last[id], kTolerance) << id;
  for (size_t step = 0; step < expected.greedy.size(); ++step) {
    const std::vector<TokenLogprob>& best = expected.greedy_logprobs[step];
    if (got.greedy[step] != expected.greedy[step]) {
      EXPECT_LE(best[0].logprob - best[1].logprob, kMargin) << "step " << step;
      return;
    }
    ASSERT_NEAR(got.greedy_logprobs[step][0].logprob, best[0].logprob, kTolerance) << "step " << step;
  }
}

class RankCases : public ::testing::Test {
 protected:
  void write(const DecoderShape& shape) {
    write_folder(folder_.path(), config_of(shape), random_tensors(shape, 1),
                 [](const std::string&) { return DType::kFloat32; });
  }
  /// Every number of ranks gives what one gives.
  void expect_same_over(const DecoderShape& shape, const std::vector<int>& sizes) {
    write(shape);
    const std::vector<int32_t> prompt = prompt_for(shape.vocab, 40);
    ParityModel whole(folder_.path(), over_ranks(1));
    const ParityModel::Answer expected = whole.run(prompt, 16);
    for (const int ranks : sizes) {
      SCOPED_TRACE(std::to_string(shape.heads) + " heads over " + std::to_string(ranks) + " ranks");
      ParityModel divided(folder_.path(), over_ranks(ranks));
      expect_equal_within_rounding(divided.run(prompt, 16), expected);
    }
  }

  const test::TemporaryFolder folder_;
};

TEST_F(RankCases, TP_01_HeadsThatDoNotDivideAreDividedAllTheSame) {
  expect_same_over(shape_of(28, 4), {8});
  expect_same_over(shape_of(12, 12), {8});
  expect_same_over(shape_of(40, 8), {3});
}

TEST_F(RankCases, TP_02_FewerKvHeadsThanRanks) {
  expect_same_over(shape_of(8, 1), {2, 4});
  expect_same_over(shape_of(8, 2), {4});
}

TEST_F(RankCases, TP_04_AVocabularyThatDoesNotDivide) {
  const DecoderShape shape = shape_of(8, 4, 1003);
  expect_same_over(shape, {2, 4});
  for (const int ranks : {2, 4}) {
    ParityModel divided(folder_.path(), over_ranks(ranks));
    EXPECT_EQ(divided.vocab_size(), 1003);
    // No padded id has a share, so none can be sampled.
    double sum = 0;
    for (const float logprob : divided.run(prompt_for(1003, 9), 1).last) sum += std::exp(static_cast<double>(logprob));
    EXPECT_NEAR(sum, 1.0, 1e-5);
  }
}

TEST_F(RankCases, TP_09_TwentyPromptsOf64TokensGiveTheTokensOfOneRank) {
  const DecoderShape shape = shape_of(8, 4, 211);
  write(shape);
  std::vector<ParityModel::Work> works;
  for (int64_t i = 0; i < 20; ++i) works.push_back({prompt_for(shape.vocab, 64, 31 + i), 64, 1 << 20, 0});
  ParityModel whole(folder_.path(), over_ranks(1));
  const std::vector<ParityModel::Answer> expected = whole.run_together(works);
  for (const int ranks : {2, 4}) {
    ParityModel divided(folder_.path(), over_ranks(ranks));
    const std::vector<ParityModel::Answer> answers = divided.run_together(works);
    for (size_t i = 0; i < works.size(); ++i) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, prompt " + std::to_string(i));
      expect_equal_within_rounding(answers[i], expected[i]);
    }
  }
}

TEST_F(RankCases, LORA_30_AdaptersOnAttentionWithMoreRanksThanKvHeads) {
  const DecoderShape shape = shape_of(8, 2);
  write(shape);
  test::AdapterBuilder builder;
  builder.field("target_modules", {"q_proj", "k_proj", "v_proj", "o_proj"}).field("r", 4).field("lora_alpha", 8);
  int seed = 1;
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    for (const std::string name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      const int64_t attention = shape.heads * shape.head_dim;
      const int64_t out = name == "o_proj"   ? shape.hidden
                          : name == "q_proj" ? attention
                                             : shape.kv_heads * shape.head_dim;
      const std::string module = "base_model.model.model.layers." + std::to_string(layer) + ".self_attn." + name;
      builder.tensor(module + ".lora_A.weight", {4, name == "o_proj" ? attention : shape.hidden}, seed)
          .tensor(module + ".lora_B.weight", {out, 4}, seed + 1);
      seed += 2;
    }
  }
  const test::TemporaryFolder adapter;
  builder.write(adapter);
  const std::vector<int32_t> prompt = prompt_for(shape.vocab, 40);
  ParityModel whole(folder_.path(), over_ranks(1));
  const ParityModel::Answer expected = whole.run(prompt, 16, 1 << 20, whole.load_adapter(adapter.path()));
  EXPECT_NE(expected.last, whole.run(prompt, 1).last);
  ParityModel divided(folder_.path(), over_ranks(4));
  expect_equal_within_rounding(divided.run(prompt, 16, 1 << 20, divided.load_adapter(adapter.path())), expected);

  EngineConfig config = over_ranks(4);
  config.lora.fully_sharded = true;
  ParityModel sharded(folder_.path(), config);
  expect_equal_within_rounding(sharded.run(prompt, 16, 1 << 20, sharded.load_adapter(adapter.path())), expected);
  const auto files = std::move(AdapterFiles::open(adapter.path())).value();
  EXPECT_LT(sharded.executor().load_adapter(99, *files)->bytes, divided.executor().load_adapter(99, *files)->bytes);
}

}  // namespace
}  // namespace quire::testing
