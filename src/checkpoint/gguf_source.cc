#include "checkpoint/gguf_source.h"

#include <cstring>
#include <utility>

#include "checkpoint/gguf_dequantize.h"
#include "checkpoint/printable.h"
#include "checkpoint/weight_index.h"

namespace quire {
namespace {

constexpr std::pair<std::string_view, std::string_view> kGlobalNames[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};

constexpr std::pair<std::string_view, std::string_view> kLayerNames[] = {
    {"attn_norm", "input_layernorm"},    {"ffn_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};

/// Row `row` of a Hugging Face q or k matrix as converters for architecture llama store it: within a head, row (half,
/// i) became (i, half).
int64_t stored_row_index(int64_t row, int64_t head_dim) {
  const int64_t within = row % head_dim;
  const int64_t half = head_dim / 2;
  return row - within + within % half * 2 + within / half;
}

struct Entry {
  const GgufTensor* tensor;
  bool permuted;  ///< rows stored in interleaved order
};

class GgufSource final : public WeightSource {
 public:
  GgufSource(GgufFile file, const ModelConfig& config)
      : file_(std::move(file)), description_(file_.description()), head_dim_(config.head_dim) {}

  Status build_index(bool permutes) {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (tensor.name == "rope_freqs.weight") continue;
      const WeightInfo info{gguf_to_hugging_face_name(tensor.name), tensor.shape, tensor.type->name, tensor.bytes};
      const bool permuted = permutes && (info.name.find(".q_proj.") != std::string::npos ||
                                         info.name.find(".k_proj.") != std::string::npos);
      const int64_t out_features = tensor.shape.empty() ? 1 : tensor.shape[0];
      if (permuted && (out_features % head_dim_ != 0 || tensor.shape.size() > 2)) {
        return invalid_argument(description_ + ": tensor " + quote_name(tensor.name) + " has " +
                                std::to_string(out_features) + " rows, not whole heads of " +
                                std::to_string(head_dim_));
      }
      if (index_.add(info, {&tensor, permuted}) != nullptr) {
        return invalid_argument(description_ + ": two tensors are named " + quote_name(info.name));
      }
    }
    return {};
  }

  std::span<const WeightInfo> tensors() const override { return index_.weights(); }

  const WeightInfo* find(std::string_view name) const override { return index_.find(name); }

  Result<MatrixView> read_rows(const WeightInfo& weight, int64_t begin, int64_t count,
                               std::vector<float>& scratch) const override {
    const Entry& entry = index_.place_of(weight);
    const GgmlTypeInfo& type = *entry.tensor->type;
    if (!type.readable) {
      return unsupported(description_ + ": tensor " + quote_name(entry.tensor->name) + " has type " + type.name +
                         "; readable are " + readable_ggml_types());
    }
    QUIRE_CHECK(begin >= 0 && count >= 0 && begin <= weight.rows() && count <= weight.rows() - begin);
    const int64_t cols = weight.cols();
    if (!entry.permuted) {
      if (const auto dtype = lent_dtype(entry, begin, cols))
        return MatrixView{row_at(entry, begin, cols), *dtype, count, cols, cols};
    }
    scratch.resize(static_cast<size_t>(count * cols));
    if (entry.permuted && weight.shape.size() == 1) {
      read_permuted_vector(entry, cols, scratch);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = entry.permuted ? stored_row_index(begin + i, head_dim_) : begin + i;
        gguf_dequantize(type, row_at(entry, row, cols), cols, scratch.data() + i * cols);
      }
    }
    return MatrixView{scratch.data(), DType::kFloat32, count, cols, cols};
  }

  const GgmlTypeInfo* stored_block_type(const WeightInfo& weight) const override {
    const GgmlTypeInfo* const type = index_.place_of(weight).tensor->type;
    return type->block_size > 1 && weight.shape.size() == 2 ? type : nullptr;
  }

  const std::byte* stored_row(const WeightInfo& weight, int64_t row) const override {
    const Entry& entry = index_.place_of(weight);
    return row_at(entry, entry.permuted ? stored_row_index(row, head_dim_) : row, weight.cols());
  }

  void release(const WeightInfo& weight) const override { file_.release(*index_.place_of(weight).tensor); }

  std::vector<std::filesystem::path> files() const override { return {description_}; }

  const std::string& description() const override { return description_; }

 private:
  const std::byte* row_at(const Entry& entry, int64_t row, int64_t cols) const {
    const GgmlTypeInfo& type = *entry.tensor->type;
    return file_.data(*entry.tensor).data() + row * cols / type.block_size * type.block_bytes;
  }

  /// The type under which rows can be lent as they are stored: float types, where they lie on their elements'
  /// alignment.
  std::optional<DType> lent_dtype(const Entry& entry, int64_t begin, int64_t cols) const {
    const auto type = static_cast<GgmlType>(entry.tensor->type->number);
    std::optional<DType> dtype;
    if (type == GgmlType::kF32) dtype = DType::kFloat32;
    if (type == GgmlType::kF16) dtype = DType::kFloat16;
    if (type == GgmlType::kBF16) dtype = DType::kBFloat16;
    if (!dtype || reinterpret_cast<uintptr_t>(row_at(entry, begin, cols)) % dtype_size(*dtype) != 0)
      return std::nullopt;
    return dtype;
  }

  void read_permuted_vector(const Entry& entry, int64_t size, std::vector<float>& out) const {
    std::vector<float> stored(static_cast<size_t>(size));
    gguf_dequantize(*entry.tensor->type, row_at(entry, 0, size), size, stored.data());
    for (int64_t i = 0; i < size; ++i)
      out[static_cast<size_t>(i)] = stored[static_cast<size_t>(stored_row_index(i, head_dim_))];
  }

  const GgufFile file_;
  const std::string description_;
  const int64_t head_dim_;
  WeightIndex<Entry> index_;
};

std::optional<std::string_view> look_up(std::span<const std::pair<std::string_view, std::string_view>> names,
                                        std::string_view name) {
  for (const auto& [gguf, hugging_face] : names) {
    if (gguf == name) return hugging_face;
  }
  return std::nullopt;
}

}  // namespace

std::string gguf_to_hugging_face_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::string(name);
  const std::string_view stem = name.substr(0, dot);
  const std::string suffix(name.substr(dot));
  if (const auto global = look_up(kGlobalNames, stem)) return std::string(*global) + suffix;
  if (!stem.starts_with("blk.")) return std::string(name);
  const size_t end = stem.find('.', 4);
  if (end == std::string_view::npos) return std::string(name);
  const auto inner = look_up(kLayerNames, stem.substr(end + 1));
  if (!inner) return std::string(name);
  return "model.layers." + std::string(stem.substr(4, end - 4)) + "." + std::string(*inner) + suffix;
}

Result<std::unique_ptr<WeightSource>> make_gguf_source(GgufFile file, const ModelConfig& config) {
  const bool permutes = config.model_type == "llama";
  auto source = std::make_unique<GgufSource>(std::move(file), config);
  QUIRE_RETURN_IF_ERROR(source->build_index(permutes));
  return std::unique_ptr<WeightSource>(std::move(source));
}

}  // namespace quire
