#include "layers/rotary_embedding.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/copy.h"
#include "ops/rotary.h"

namespace quire {

namespace {

int64_t rotary_dim(const ModelConfig& config) {
  return static_cast<int64_t>(static_cast<double>(config.head_dim) * config.rope.partial_rotary_factor);
}

std::vector<float> default_frequencies(double theta, int64_t dim) {
  std::vector<float> frequencies(static_cast<size_t>(dim / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    frequencies[i] = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  }
  return frequencies;
}

double yarn_scale(double factor, double mscale) { return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

double yarn_attention_factor(const RopeConfig& rope, double factor) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale.value_or(0.0) != 0.0 && rope.mscale_all_dim.value_or(0.0) != 0.0) {
    return yarn_scale(factor, *rope.mscale) / yarn_scale(factor, *rope.mscale_all_dim);
  }
  return yarn_scale(factor, 1.0);
}

/// YaRN (Peng et al. 2023, arXiv:2309.00071): interpolates low frequencies, keeps high ones, ramps between.
RopeParameters yarn_parameters(const ModelConfig& config, int64_t dim) {
  const RopeConfig& rope = config.rope;
  const auto original =
      static_cast<double>(rope.original_max_position_embeddings > 0 ? rope.original_max_position_embeddings
                                                                    : config.max_position_embeddings);
  const auto correction_dim = [&](double rotations) {
    return static_cast<double>(dim) * std::log(original / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = correction_dim(rope.beta_fast);
  double high = correction_dim(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;

  RopeParameters parameters{default_frequencies(rope.theta, dim),
                            static_cast<float>(yarn_attention_factor(rope, rope.factor))};
  for (size_t i = 0; i < parameters.inverse_frequencies.size(); ++i) {
    const float extrapolated = parameters.inverse_frequencies[i];
    const float interpolated = extrapolated / static_cast<float>(rope.factor);
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const auto keep = static_cast<float>(1.0 - ramp);
    parameters.inverse_frequencies[i] = interpolated * (1.0f - keep) + extrapolated * keep;
  }
  return parameters;
}

/// Llama 3.1's scaling: long wavelengths are divided by the factor, short ones kept, the middle interpolated.
RopeParameters llama3_parameters(const RopeConfig& rope, int64_t dim) {
  RopeParameters parameters{default_frequencies(rope.theta, dim)};
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  for (float& frequency : parameters.inverse_frequencies) {
    const double wavelength = 2 * std::numbers::pi / static_cast<double>(frequency);
    if (wavelength < original / rope.high_freq_factor) continue;
    const double scaled = static_cast<double>(frequency) / rope.factor;
    if (wavelength > original / rope.low_freq_factor) {
      frequency = static_cast<float>(scaled);
    } else {
      const double smooth =
          (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      frequency = static_cast<float>((1 - smooth) * scaled + smooth * static_cast<double>(frequency));
    }
  }
  return parameters;
}

int64_t dynamic_original(const ModelConfig& config) {
  return config.rope.original_max_position_embeddings > 0 ? config.rope.original_max_position_embeddings
                                                          : config.max_position_embeddings;
}

/// Dynamic NTK scaling with one base for the whole context, as vLLM does: exact only up to the original context.
RopeParameters dynamic_parameters(const ModelConfig& config, int64_t dim, int64_t max_positions) {
  const auto original = static_cast<double>(dynamic_original(config));
  double theta = config.rope.theta;
  if (max_positions > dynamic_original(config)) {
    const double extended = original * config.rope.factor;
    const double growth = config.rope.factor * extended / original - (config.rope.factor - 1);
    theta *= std::pow(growth, static_cast<double>(dim) / static_cast<double>(dim - 2));
  }
  return {default_frequencies(theta, dim)};
}

}  // namespace

RopeParameters compute_rope_parameters(const ModelConfig& config, int64_t max_positions) {
  const int64_t dim = rotary_dim(config);
  switch (config.rope.type) {
    case RopeType::kLinear: {
      RopeParameters parameters{default_frequencies(config.rope.theta, dim)};
      for (float& frequency : parameters.inverse_frequencies) frequency /= static_cast<float>(config.rope.factor);
      return parameters;
    }
    case RopeType::kYarn:
      return yarn_parameters(config, dim);
    case RopeType::kLlama3:
      return llama3_parameters(config.rope, dim);
    case RopeType::kDynamic:
      return dynamic_parameters(config, dim, max_positions);
    case RopeType::kDefault:
      break;
  }
  return {default_frequencies(config.rope.theta, dim)};
}

int64_t rope_context_length(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  switch (rope.type) {
    case RopeType::kLinear:
      return static_cast<int64_t>(static_cast<double>(config.max_position_embeddings) * rope.factor);
    case RopeType::kYarn: {
      const int64_t original = rope.original_max_position_embeddings > 0 ? rope.original_max_position_embeddings
                                                                         : config.max_position_embeddings;
      return static_cast<int64_t>(static_cast<double>(original) * rope.factor);
    }
    case RopeType::kDynamic:
      return dynamic_original(config);
    case RopeType::kDefault:
    case RopeType::kLlama3:
      break;
  }
  return config.max_position_embeddings;
}

RotaryEmbedding::RotaryEmbedding(LayerContext& context, const ModelConfig& config) : head_dim_(config.head_dim) {
  const RopeParameters parameters = compute_rope_parameters(config, context.max_positions);
  const auto half = static_cast<int64_t>(parameters.inverse_frequencies.size());
  const int64_t dim = 2 * half;
  std::vector<float> table(static_cast<size_t>(context.max_positions * dim));
  context.op_context.pool->parallel_for(context.max_positions, [&](int64_t position, int) {
    float* row = table.data() + position * dim;
    for (int64_t i = 0; i < half; ++i) {
      // The angle is rounded to float32, as transformers computes it, before cosine and sine.
      const float angle = static_cast<float>(position) * parameters.inverse_frequencies[static_cast<size_t>(i)];
      row[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * parameters.attention_factor;
      row[half + i] = static_cast<float>(std::sin(static_cast<double>(angle))) * parameters.attention_factor;
    }
  });
  cos_sin_ = Tensor::empty(context.max_positions, dim, DType::kFloat32, context.op_context.device);
  ops::copy_from_host(context.op_context, std::span<const float>(table), cos_sin_);
}

void RotaryEmbedding::forward(ForwardBatch& batch, int64_t heads, Tensor& x) const {
  ops::rotary_embedding(*batch.context, batch.positions, cos_sin_, heads, head_dim_, x);
}

}  // namespace quire
