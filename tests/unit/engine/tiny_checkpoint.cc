#include "engine/tiny_checkpoint.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

#include "checkpoint/gguf_builder.h"
#include "checkpoint/gguf_dequantize.h"
#include "checkpoint/weight_source.h"
#include "tensor/convert.h"

namespace quire::testing {
namespace {

using test::raw;

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string stored(const std::vector<float>& values, DType dtype) {
  std::string bytes;
  for (const float value : values) {
    if (dtype == DType::kFloat32) bytes += raw(value);
    if (dtype == DType::kBFloat16) bytes += raw(float_to_bfloat16(value));
    if (dtype == DType::kFloat16) bytes += raw(float_to_float16(value));
  }
  return bytes;
}

const char* safetensors_name(DType dtype) {
  return dtype == DType::kFloat32 ? "F32" : dtype == DType::kBFloat16 ? "BF16" : "F16";
}

/// model.layers.3.self_attn.q_proj.weight -> blk.3.attn_q.weight.
std::string gguf_name(std::string name) {
  const std::pair<const char*, const char*> parts[] = {
      {"model.layers.", "blk."},           {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},       {"lm_head", "output"},
      {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.o_proj", "attn_output"}, {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
      {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  for (const auto& [from, to] : parts) {
    if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, std::string(from).size(), to);
  }
  return name;
}

/// Rows as the converter for architecture llama stores them: pairs that are rotated together lie side by side. The
/// inverse when `back` is set.
NamedTensor interleave_halves(const NamedTensor& tensor, int64_t head_dim, bool back) {
  NamedTensor out = tensor;
  const auto rows = static_cast<size_t>(tensor.shape[0]);
  const size_t cols = tensor.values.size() / rows;
  const auto dim = static_cast<size_t>(head_dim);
  for (size_t row = 0; row < rows; ++row) {
    const size_t head = row / dim, half = row % dim / (dim / 2), pair = row % dim % (dim / 2);
    const size_t other = head * dim + pair * 2 + half;
    for (size_t i = 0; i < cols; ++i) {
      if (back) {
        out.values[row * cols + i] = tensor.values[other * cols + i];
      } else {
        out.values[other * cols + i] = tensor.values[row * cols + i];
      }
    }
  }
  return out;
}

/// Random blocks whose scales are small float16 numbers.
std::string random_blocks(const GgmlTypeInfo& type, size_t elements, std::mt19937& random) {
  std::string bytes(elements / type.block_size * type.block_bytes, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  const auto kind = static_cast<GgmlType>(type.number);
  const size_t scale_at = kind == GgmlType::kQ6_K ? type.block_bytes - 2 : 0;
  const float size = kind == GgmlType::kQ8_0 ? 1e-3f : kind == GgmlType::kQ6_K ? 5e-5f : 1e-2f;
  for (size_t block = 0; block < bytes.size(); block += type.block_bytes) {
    bytes.replace(block + scale_at, 2, raw(float_to_float16(size)));
    if (kind == GgmlType::kQ4_1) bytes.replace(block + 2, 2, raw(float_to_float16(-8 * size)));
  }
  return bytes;
}

void add_metadata(test::GgufBuilder& builder, const DecoderShape& shape) {
  const std::string prefix = shape.family + ".";
  builder.text("general.architecture", shape.family)
      .integer(prefix + "context_length", 1024)
      .integer(prefix + "embedding_length", static_cast<uint32_t>(shape.hidden))
      .integer(prefix + "feed_forward_length", static_cast<uint32_t>(shape.intermediate))
      .integer(prefix + "block_count", static_cast<uint32_t>(shape.layers))
      .integer(prefix + "attention.head_count", static_cast<uint32_t>(shape.heads))
      .integer(prefix + "attention.head_count_kv", static_cast<uint32_t>(shape.kv_heads))
      .integer(prefix + "attention.key_length", static_cast<uint32_t>(shape.head_dim))
      .integer(prefix + "attention.value_length", static_cast<uint32_t>(shape.head_dim))
      .number(prefix + "attention.layer_norm_rms_epsilon", 1e-6f)
      .number(prefix + "rope.freq_base", static_cast<float>(shape.theta));
  if (shape.linear_factor != 1.0) {
    builder.text(prefix + "rope.scaling.type", "linear")
        .number(prefix + "rope.scaling.factor", static_cast<float>(shape.linear_factor));
  }
}

}  // namespace

TensorMap random_tensors(const DecoderShape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  TensorMap tensors;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& dimensions, float center = 0.0f) {
    NamedTensor tensor{dimensions, {}};
    int64_t size = 1;
    for (const int64_t dimension : dimensions) size *= dimension;
    // Seven bits and a sign: exact in every float type.
    for (int64_t i = 0; i < size; ++i) {
      tensor.values.push_back(center + (static_cast<float>(random() % 128) - 64.0f) / 256.0f);
    }
    tensors[name] = std::move(tensor);
  };
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t cols, bool bias) {
    add(name + ".weight", {rows, cols});
    if (bias) add(name + ".bias", {rows});
  };
  matrix("model.embed_tokens", shape.vocab, shape.hidden, false);
  if (!shape.tied) matrix("lm_head", shape.vocab, shape.hidden, false);
  add("model.norm.weight", {shape.hidden}, 1.0f);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer);
    add(prefix + ".input_layernorm.weight", {shape.hidden}, 1.0f);
    add(prefix + ".post_attention_layernorm.weight", {shape.hidden}, 1.0f);
    const std::string attention = prefix + ".self_attn";
    matrix(attention + ".q_proj", shape.heads * shape.head_dim, shape.hidden, shape.has_qkv_bias());
    matrix(attention + ".k_proj", shape.kv_heads * shape.head_dim, shape.hidden, shape.has_qkv_bias());
    matrix(attention + ".v_proj", shape.kv_heads * shape.head_dim, shape.hidden, shape.has_qkv_bias());
    matrix(attention + ".o_proj", shape.hidden, shape.heads * shape.head_dim, shape.attention_bias);
    if (shape.family == "qwen3") {
      add(attention + ".q_norm.weight", {shape.head_dim}, 1.0f);
      add(attention + ".k_norm.weight", {shape.head_dim}, 1.0f);
    }
    matrix(prefix + ".mlp.gate_proj", shape.intermediate, shape.hidden, shape.mlp_bias);
    matrix(prefix + ".mlp.up_proj", shape.intermediate, shape.hidden, shape.mlp_bias);
    matrix(prefix + ".mlp.down_proj", shape.hidden, shape.intermediate, shape.mlp_bias);
  }
  return tensors;
}

nlohmann::json config_of(const DecoderShape& shape) {
  const std::map<std::string, std::string> names = {
      {"llama", "Llama"}, {"mistral", "Mistral"}, {"qwen2", "Qwen2"}, {"qwen3", "Qwen3"}};
  nlohmann::json config = {{"architectures", {names.at(shape.family) + "ForCausalLM"}},
                           {"model_type", shape.family},
                           {"vocab_size", shape.vocab},
                           {"hidden_size", shape.hidden},
                           {"intermediate_size", shape.intermediate},
                           {"num_hidden_layers", shape.layers},
                           {"num_attention_heads", shape.heads},
                           {"num_key_value_heads", shape.kv_heads},
                           {"head_dim", shape.head_dim},
                           {"max_position_embeddings", 1024},
                           {"rms_norm_eps", 1e-6},
                           {"hidden_act", shape.activation},
                           {"rope_theta", shape.theta},
                           {"tie_word_embeddings", shape.tied}};
  if (shape.attention_bias) config["attention_bias"] = true;
  if (shape.mlp_bias) config["mlp_bias"] = true;
  if (shape.linear_factor != 1.0) config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", shape.linear_factor}};
  if (shape.family == "mistral") config["sliding_window"] = nullptr;
  for (int64_t layer = 0; layer < shape.layers && !shape.windows.empty(); ++layer) {
    if (shape.window(layer) > 0) config["sliding_window"] = shape.window(layer);
    config["layer_types"].push_back(shape.window(layer) > 0 ? "sliding_attention" : "full_attention");
  }
  if (!shape.windows.empty() && shape.family.starts_with("qwen")) config["use_sliding_window"] = true;
  return config;
}

void write_folder(const std::filesystem::path& folder, const nlohmann::json& config, const TensorMap& tensors,
                  const std::function<DType(const std::string& name)>& dtype_of) {
  std::filesystem::create_directories(folder);
  write_file(folder / "config.json", config.dump());
  nlohmann::json header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const DType dtype = dtype_of(name);
    const size_t begin = data.size();
    data += stored(tensor.values, dtype);
    header[name] = {
        {"dtype", safetensors_name(dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  write_file(folder / "model.safetensors", test::safetensors(header.dump(), data));
}

void write_gguf(const std::filesystem::path& path, const DecoderShape& shape, TensorMap& tensors, GgmlType type,
                const std::function<std::string(const std::vector<float>&)>& blocks_of) {
  test::GgufBuilder builder;
  add_metadata(builder, shape);
  std::mt19937 random(7);
  const GgmlTypeInfo& info = *find_ggml_type(static_cast<uint32_t>(type));
  for (auto& [name, tensor] : tensors) {
    const bool permuted = shape.family == "llama" &&
                          (name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos);
    if (permuted) tensor = interleave_halves(tensor, shape.head_dim, false);
    const bool whole_blocks = tensor.shape.size() == 2 && tensor.shape[1] % info.block_size == 0;
    if (whole_blocks && info.block_size > 1) {
      const std::string blocks =
          blocks_of ? blocks_of(tensor.values) : random_blocks(info, tensor.values.size(), random);
      gguf_dequantize(info, test::bytes_of(blocks).data(), static_cast<int64_t>(tensor.values.size()),
                      tensor.values.data());
      builder.tensor(gguf_name(name), tensor.shape, type, blocks);
    } else {
      const bool matrix = tensor.shape.size() == 2 && info.block_size == 1;
      const DType dtype = type == GgmlType::kF16    ? DType::kFloat16
                          : type == GgmlType::kBF16 ? DType::kBFloat16
                                                    : DType::kFloat32;
      builder.tensor(gguf_name(name), tensor.shape, matrix ? type : GgmlType::kF32,
                     stored(tensor.values, matrix ? dtype : DType::kFloat32));
    }
    if (permuted) tensor = interleave_halves(tensor, shape.head_dim, true);
  }
  write_file(path, builder.build());
}

TensorMap read_tensors(const std::filesystem::path& path) {
  const auto checkpoint = open_checkpoint(path);
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
  TensorMap tensors;
  std::vector<float> scratch;
  for (const WeightInfo& weight : checkpoint->weights->tensors()) {
    const auto view = checkpoint->weights->read_rows(weight, 0, weight.rows(), scratch);
    if (!view.ok()) throw std::runtime_error(view.error().message);
    NamedTensor tensor{weight.shape, std::vector<float>(static_cast<size_t>(view->rows * view->cols))};
    for (int64_t row = 0; row < view->rows; ++row) row_to_float(*view, row, tensor.values.data() + row * view->cols);
    tensors[weight.name] = std::move(tensor);
  }
  return tensors;
}

}  // namespace quire::testing
