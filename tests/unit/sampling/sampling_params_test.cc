#include "sampling/sampling_params.h"

#include <gtest/gtest.h>

#include <limits>

namespace quire {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The field that validate() names, or "" when it accepts.
template <typename Change>
std::string refused(Change change, int64_t max_logprobs = 20) {
  SamplingParams params;
  change(params);
  const Status status = validate(params, max_logprobs);
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
  for (double value : {kNan, kInfinity, -kInfinity}) {
    EXPECT_EQ(refused([&](SamplingParams& p) { p.temperature = value; }), "temperature");
    EXPECT_EQ(refused([&](SamplingParams& p) { p.top_p = value; }), "top_p");
  }
}

TEST(SamplingParams, SAMP_07_ExtremesAreRefused) {
  for (double value : {999999.0, 2.0000001, -0.1})
    EXPECT_EQ(refused([&](SamplingParams& p) { p.temperature = value; }), "temperature");
  for (double value : {-1.0, 0.0, 1.0000001}) EXPECT_EQ(refused([&](SamplingParams& p) { p.top_p = value; }), "top_p");
  EXPECT_EQ(refused([](SamplingParams& p) { p.top_k = -2; }), "top_k");
  EXPECT_EQ(refused([](SamplingParams& p) { p.top_k = std::numeric_limits<int64_t>::max(); }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.temperature = 2.0; }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.top_p = 1e-300; }), "");
}

TEST(SamplingParams, SAMP_04_TinyTemperatures) {
  SamplingParams params;
  for (double value : {0.0, 1e-38, 1e-10, 1e-6}) {
    params.temperature = value;
    EXPECT_TRUE(validate(params, 20).ok());
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

TEST(SamplingParams, StopsMustBeUsable) {
  EXPECT_EQ(refused([](SamplingParams& p) { p.stop = {"a", ""}; }), "stop");
  EXPECT_EQ(refused([](SamplingParams& p) { p.stop = {"\xC3"}; }), "stop");
  EXPECT_EQ(refused([](SamplingParams& p) { p.stop = {"\xA9"}; }), "stop");
  EXPECT_EQ(refused([](SamplingParams& p) { p.stop = {"é", "日本", "😀"}; }), "");
  EXPECT_EQ(refused([](SamplingParams& p) { p.stop_token_ids = {1, -1}; }), "stop_token_ids");
}

}  // namespace
}  // namespace quire
