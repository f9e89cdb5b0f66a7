#include "sampling/sampling_params.h"

#include <gtest/gtest.h>

#include <limits>

namespace quire {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// The field that validate() names, or "" when it accepts.
template <typename Change>
std::string refused(Change change, int64_t max_logprobs = 20) {
  SamplingParams params;
  change(params);
  const Status status = validate(params, {max_logprobs, 1000});
  if (status.ok()) return "";
  EXPECT_EQ(status.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_NE(status.error().message.find(status.error().param), std::string::npos) << status.error().message;
  EXPECT_EQ(status.error().message.back(), '.');
  return status.error().param;
}

TEST(SamplingParams, DefaultsAreValid) {
  EXPECT_EQ(refused([](SamplingParams&) {}), "");
}

TEST(SamplingParams, SAMP_05_NonFiniteIsRefused) {
  for (double value : {kNoNumber, kUnbounded, -kUnbounded}) {
    EXPECT_EQ(refused([&](SamplingParams& p) { p.temperature = value; }), "temperature");
    EXPECT_EQ(refused([&](SamplingParams& p) { p.top_p = value; }), "top_p");
    EXPECT_EQ(refused([&](SamplingParams& p) { p.min_p = value; }), "min_p");
    EXPECT_EQ(refused([&](SamplingParams& p) { p.presence_penalty = value; }), "presence_penalty");
    EXPECT_EQ(refused([&](SamplingParams& p) { p.frequency_penalty = value; }), "frequency_penalty");
    EXPECT_EQ(refused([&](SamplingParams& p) { p.repetition_penalty = value; }), "repetition_penalty");
    EXPECT_EQ(refused([&](SamplingParams& p) { p.logit_bias[5] = value; }), "logit_bias");
  }
}

TEST(SamplingParams, SAMP_07_ExtremesAreRefused) {
  for (double value : {999999.0, 2.0000001, -0.1})
    EXPECT_EQ(refused([&](SamplingParams& p) { p.temperature = value; }), "temperature");
  for (double value : {-1.0, 0.0, 1.0000001}) EXPECT_EQ(refused([&](SamplingParams& p) { p.top_p = value; }), "top_p");
  for (double value : {-0.1, 1.1, 2.0}) EXPECT_EQ(refused([&](SamplingParams& p) { p.min_p = value; }), "min_p");
  for (double value : {-2.1, 2.1, 100.0}) {
    EXPECT_EQ(refused([&](SamplingParams& p) { p.presence_penalty = value; }), "presence_penalty");
    EXPECT_EQ(refused([&](SamplingParams& p) { p.frequency_penalty = value; }), "frequency_penalty");
  }
  for (double value : {0.0, -1.0})
    EXPECT_EQ(refused([&](SamplingParams& p) { p.repetition_penalty = value; }), "repetition_penalty");
  EXPECT_EQ(refused([](SamplingParams& p) { p.repetition_penalty = 1e300; }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.min_p = 1.0; }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.top_k = -2; }), "top_k");
  EXPECT_EQ(refused([](SamplingParams& p) { p.top_k = std::numeric_limits<int64_t>::max(); }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.temperature = 2.0; }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.top_p = 1e-300; }), "");
}

TEST(SamplingParams, SAMP_04_TinyTemperatures) {
  SamplingParams params;
  for (double value : {0.0, 1e-38, 1e-10, 1e-6}) {
    params.temperature = value;
    EXPECT_TRUE(validate(params, {20, 1000}).ok());
    EXPECT_TRUE(params.greedy());
  }
  params.temperature = 1e-4;
  EXPECT_FALSE(params.greedy());
  EXPECT_EQ(effective_temperature(params), 0.01);
}

TEST(SamplingParams, SAMP_25_CountsHaveLimits) {
  EXPECT_EQ(refused([](SamplingParams& p) { p.max_tokens = 0; }), "max_tokens");
  EXPECT_EQ(refused([](SamplingParams& p) { p.max_tokens = -5; }), "max_tokens");
  EXPECT_EQ(refused([](SamplingParams& p) { p.max_tokens = std::nullopt; }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.logprobs = 21; }), "logprobs");
  EXPECT_EQ(refused([](SamplingParams& p) { p.logprobs = -2; }), "logprobs");
  EXPECT_EQ(refused([](SamplingParams& p) { p.logprobs = -1; }), "logprobs");
  EXPECT_EQ(refused([](SamplingParams& p) { p.logprobs = -1; }, -1), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.logprobs = 20; }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.prompt_logprobs = 21; }), "prompt_logprobs");
}

TEST(SamplingParams, SAMP_18_BiasesAreOfTokensAndBounded) {
  EXPECT_EQ(refused([](SamplingParams& p) { p.logit_bias = {{191222, -100}}; }), "logit_bias");
  EXPECT_EQ(refused([](SamplingParams& p) { p.logit_bias = {{-1, 5}}; }), "logit_bias");
  EXPECT_EQ(refused([](SamplingParams& p) { p.logit_bias = {{5, 1000}}; }), "logit_bias");
  EXPECT_EQ(refused([](SamplingParams& p) { p.logit_bias = {{0, -100}, {999, 100}}; }), "");
}

TEST(SamplingParams, SAMP_25_ChoicesHaveALimit) {
  for (const int64_t n : {int64_t{0}, int64_t{-1}, int64_t{1000000}, std::numeric_limits<int64_t>::max()})
    EXPECT_EQ(refused([&](SamplingParams& p) { p.n = n; }), "n");
  EXPECT_EQ(refused([](SamplingParams& p) { p.n = 8; }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.n = 2, p.temperature = 0; }), "n");
}

TEST(SamplingParams, TokenListsStayInTheVocabulary) {
  for (const int32_t id : {-1, 1000}) {
    EXPECT_EQ(refused([&](SamplingParams& p) { p.allowed_token_ids = {1, id}; }), "allowed_token_ids");
    EXPECT_EQ(refused([&](SamplingParams& p) { p.stop_token_ids = {1, id}; }), "stop_token_ids");
    EXPECT_EQ(refused([&](SamplingParams& p) { p.logprobs = 0, p.logprob_token_ids = {id}; }), "logprob_token_ids");
  }
  EXPECT_EQ(refused([](SamplingParams& p) { p.allowed_token_ids.emplace(); }), "allowed_token_ids");
  EXPECT_EQ(refused([](SamplingParams& p) { p.logprob_token_ids = {4}; }), "logprob_token_ids");
}

TEST(SamplingParams, LengthsFitTogether) {
  EXPECT_EQ(refused([](SamplingParams& p) { p.min_tokens = -1; }), "min_tokens");
  EXPECT_EQ(refused([](SamplingParams& p) { p.min_tokens = 17; }), "min_tokens");
  EXPECT_EQ(refused([](SamplingParams& p) { p.min_tokens = 16; }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.min_tokens = 100, p.max_tokens.reset(); }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.truncate_prompt_tokens = 0; }), "truncate_prompt_tokens");
  EXPECT_EQ(refused([](SamplingParams& p) { p.truncate_prompt_tokens = -2; }), "truncate_prompt_tokens");
  EXPECT_EQ(refused([](SamplingParams& p) { p.truncate_prompt_tokens = -1; }), "");
}

TEST(SamplingParams, RepetitionDetectionIsJudgedInItsParts) {
  const auto detection = [](int64_t most, int64_t least, int64_t count) {
    return refused([&](SamplingParams& p) { p.repetition_detection = {most, least, count}; });
  };
  EXPECT_EQ(detection(3, 1, 2), "");
  EXPECT_EQ(detection(3, 0, 2), "repetition_detection.min_pattern_size");
  EXPECT_EQ(detection(1, 2, 2), "repetition_detection.max_pattern_size");
  EXPECT_EQ(detection(3, 1, 1), "repetition_detection.min_count");
}

TEST(SamplingParams, BeamSearch) {
  const auto with_beams = [](auto change) {
    return refused([&](SamplingParams& p) { p.use_beam_search = true, p.n = 3, p.temperature = 0, change(p); });
  };
  EXPECT_EQ(with_beams([](SamplingParams&) {}), "");
  EXPECT_EQ(with_beams([](SamplingParams& p) { p.n = 257; }), "n");
  EXPECT_EQ(with_beams([](SamplingParams& p) { p.length_penalty = kNoNumber; }), "length_penalty");
  EXPECT_EQ(with_beams([](SamplingParams& p) { p.stop = {"a"}; }), "stop");
  EXPECT_EQ(with_beams([](SamplingParams& p) { p.repetition_penalty = 1.1; }), "repetition_penalty");
  EXPECT_EQ(with_beams([](SamplingParams& p) { p.logprobs = 7; }), "logprobs");
  EXPECT_EQ(with_beams([](SamplingParams& p) { p.logprobs = 6; }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.length_penalty = 0.5; }), "length_penalty");
}

TEST(SamplingParams, BadWordsMustBeUsable) {
  EXPECT_EQ(refused([](SamplingParams& p) { p.bad_words = {"the", ""}; }), "bad_words");
  EXPECT_EQ(refused([](SamplingParams& p) { p.bad_words = {"\xC3"}; }), "bad_words");
  EXPECT_EQ(refused([](SamplingParams& p) { p.bad_words = {std::string(5000, 'a')}; }), "bad_words");
  EXPECT_EQ(refused([](SamplingParams& p) { p.bad_words = {"the", "two words"}; }), "");
}

TEST(SamplingParams, LogprobsModes) {
  EXPECT_EQ(parse_logprobs_mode("raw_logprobs"), LogprobsMode::kRawLogprobs);
  EXPECT_EQ(parse_logprobs_mode("processed_logits"), LogprobsMode::kProcessedLogits);
  EXPECT_EQ(parse_logprobs_mode("logits"), std::nullopt);
}

TEST(SamplingParams, StopsMustBeUsable) {
  EXPECT_EQ(refused([](SamplingParams& p) { p.stop = {"a", ""}; }), "stop");
  EXPECT_EQ(refused([](SamplingParams& p) { p.stop = {"\xC3"}; }), "stop");
  EXPECT_EQ(refused([](SamplingParams& p) { p.stop = {"\xA9"}; }), "stop");
  EXPECT_EQ(refused([](SamplingParams& p) { p.stop = {"é", "日本", "😀"}; }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.stop_token_ids = {1, -1}; }), "stop_token_ids");
}

}  // namespace
}  // namespace quire
