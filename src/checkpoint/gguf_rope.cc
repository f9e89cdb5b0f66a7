#include "checkpoint/gguf_rope.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "checkpoint/printable.h"

namespace quire {
namespace {

/// The factors by which llama3's scaling divides the inverse frequencies, as converters store them in
/// rope_freqs.weight.
bool matches_llama3(std::span<const float> factors, const RopeConfig& rope) {
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  for (size_t i = 0; i < factors.size(); ++i) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(rope.theta, static_cast<double>(i) / static_cast<double>(factors.size()));
    double expected = 1.0;
    if (wavelength > original / rope.low_freq_factor) {
      expected = rope.factor;
    } else if (wavelength >= original / rope.high_freq_factor) {
      const double smooth =
          (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      expected = 1.0 / ((1.0 - smooth) / rope.factor + smooth);
    }
    if (!(std::abs(static_cast<double>(factors[i]) - expected) <= 1e-3 * expected)) return false;
  }
  return true;
}

}  // namespace

void read_gguf_rope(GgufMetadata& metadata, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.theta = metadata.number("rope.freq_base", 1.001, 1e12).value_or(10000.0);
  const std::string type(metadata.find<std::string_view>("rope.scaling.type").value_or("none"));
  const auto old_factor = metadata.number("rope.scale_linear", 1e-6, 1e6);
  const double factor = metadata.number("rope.scaling.factor", 0.0, 1e6).value_or(old_factor.value_or(1.0));
  rope.original_max_position_embeddings =
      metadata.integer("rope.scaling.original_context_length", 0, int64_t{1} << 32).value_or(0);
  if (type == "yarn") {
    rope.type = RopeType::kYarn;
    if (rope.original_max_position_embeddings == 0)
      rope.original_max_position_embeddings = config.max_position_embeddings;
    rope.beta_fast = metadata.number("rope.scaling.yarn_beta_fast", 1e-6, 1e6).value_or(32.0);
    rope.beta_slow = metadata.number("rope.scaling.yarn_beta_slow", 1e-6, 1e6).value_or(1.0);
    // How much of the extrapolation is mixed in: all of it, which is what a negative number asks for too.
    if (const double mix = metadata.number("rope.scaling.yarn_ext_factor", -1e6, 1e6).value_or(1.0);
        mix >= 0.0 && mix != 1.0) {
      metadata.refuse("rope.scaling.yarn_ext_factor", "other than 1 is not supported");
    }
  } else if (type == "linear" || (type == "none" && old_factor.value_or(1.0) != 1.0)) {
    rope.type = RopeType::kLinear;
  } else if (type != "none") {
    metadata.refuse("rope.scaling.type", quote_name(type) + " is not supported; supported are none, linear and yarn");
  }
  if (rope.type != RopeType::kDefault) rope.factor = factor > 0.0 ? factor : 1.0;
}

Status recover_llama3_rope(const GgufFile& file, ModelConfig& config) {
  const auto tensor = std::ranges::find(file.tensors(), "rope_freqs.weight", &GgufTensor::name);
  if (tensor == file.tensors().end()) return {};
  const auto refusal = [&] {
    return unsupported(file.description() +
                       ": rope_freqs.weight holds rotary factors that are not those of llama3 scaling");
  };
  const auto half = static_cast<size_t>(config.head_dim / 2);
  const auto bytes = file.data(*tensor);
  if (std::string_view(tensor->type->name) != "F32" || bytes.size() != half * sizeof(float)) return refusal();
  std::vector<float> factors(half);
  std::memcpy(factors.data(), bytes.data(), bytes.size());
  if (std::ranges::all_of(factors, [](float factor) { return factor == 1.0f; })) return {};
  if (config.rope.type != RopeType::kDefault) return refusal();
  RopeConfig candidate = config.rope;
  candidate.type = RopeType::kLlama3;
  candidate.factor = static_cast<double>(std::ranges::max(factors));
  for (int64_t original = 32; original <= 1 << 20; original *= 2) {
    candidate.original_max_position_embeddings = original;
    if (!matches_llama3(factors, candidate)) continue;
    config.rope = candidate;
    return {};
  }
  return refusal();
}

}  // namespace quire
