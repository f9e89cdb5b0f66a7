// A decoder in float64 written for clearness alone: what a checkpoint's weights should give, whatever kernel, batch,
// cache or file format computed it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace quire::testing {

/// Llama 3's rope scaling; none with a factor of 1.
struct Llama3Scaling {
  double factor = 1.0, low_freq_factor = 1.0, high_freq_factor = 4.0, original_length = 0;
};

/// A Llama-like network's sizes and options.
struct DecoderShape {
  std::string family = "llama";  ///< llama, mistral, qwen2 or qwen3
  int64_t vocab = 0, hidden = 0, intermediate = 0, layers = 1, heads = 1, kv_heads = 1, head_dim = 0;
  std::vector<int64_t> windows;  ///< of each layer, 0 for full attention; empty: all full
  std::string activation = "silu";
  bool attention_bias = false;  ///< on q, k, v and o; qwen2 has them on q, k and v in any case
  bool mlp_bias = false;
  bool tied = false;
  double theta = 10000.0;
  double linear_factor = 1.0;  ///< linear rope scaling
  Llama3Scaling llama3;

  bool has_qkv_bias() const { return attention_bias || family == "qwen2"; }
  int64_t window(int64_t layer) const { return windows.empty() ? 0 : windows[static_cast<size_t>(layer)]; }
};

/// A weight as the checkpoint's floats, row-major.
struct NamedTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
/// By Hugging Face's names.
using TensorMap = std::map<std::string, NamedTensor>;

/// Log-probabilities of all tokens after each position of `tokens`.
std::vector<std::vector<double>> reference_logprobs(const DecoderShape& shape, const TensorMap& tensors,
                                                    const std::vector<int32_t>& tokens);

}  // namespace quire::testing
