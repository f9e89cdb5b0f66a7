#include "layers/rotary_embedding.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quire {
namespace {

ModelConfig config_of(RopeType type) {
  ModelConfig config;
  config.head_dim = 64;
  config.max_position_embeddings = 2048;
  config.rope.type = type;
  config.rope.theta = 10000.0;
  config.rope.factor = 4.0;
  return config;
}

TEST(RopeParameters, DynamicIsTheDefaultWithinTheOriginalContext) {
  const auto standard = compute_rope_parameters(config_of(RopeType::kDefault), 2048);
  const auto dynamic = compute_rope_parameters(config_of(RopeType::kDynamic), 2048);
  EXPECT_EQ(dynamic.inverse_frequencies, standard.inverse_frequencies);
  EXPECT_EQ(rope_context_length(config_of(RopeType::kDynamic)), 2048);
}

TEST(RopeParameters, DynamicBeyondItGrowsTheBaseAsVllmDoes) {
  const auto dynamic = compute_rope_parameters(config_of(RopeType::kDynamic), 4096);
  // base * (factor * (context * factor) / context - (factor - 1)) ^ (dim / (dim - 2))
  const double base = 10000.0 * std::pow(4.0 * 4.0 - 3.0, 64.0 / 62.0);
  EXPECT_NEAR(dynamic.inverse_frequencies[7], std::pow(base, -14.0 / 64.0), 1e-7);
}

TEST(RopeParameters, LinearDividesAndExtendsTheContext) {
  const auto standard = compute_rope_parameters(config_of(RopeType::kDefault), 2048);
  const auto linear = compute_rope_parameters(config_of(RopeType::kLinear), 2048);
  for (size_t i = 0; i < standard.inverse_frequencies.size(); ++i) {
    EXPECT_FLOAT_EQ(linear.inverse_frequencies[i], standard.inverse_frequencies[i] / 4.0f);
  }
  EXPECT_EQ(rope_context_length(config_of(RopeType::kLinear)), 8192);
}

TEST(RopeParameters, YarnScalesAttentionAndKeepsTheFastestFrequency) {
  ModelConfig config = config_of(RopeType::kYarn);
  config.rope.original_max_position_embeddings = 512;
  const auto yarn = compute_rope_parameters(config, 2048);
  EXPECT_NEAR(yarn.attention_factor, 0.1 * std::log(4.0) + 1.0, 1e-6);
  EXPECT_FLOAT_EQ(yarn.inverse_frequencies.front(), 1.0f);
  EXPECT_EQ(rope_context_length(config), 2048);
}

}  // namespace
}  // namespace quire
