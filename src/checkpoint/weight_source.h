// Where a model's tensors come from: safetensors shards or a GGUF file, memory-mapped, under Hugging Face's names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/api.h"
#include "base/result.h"
#include "checkpoint/model_config.h"
#include "tensor/tensor.h"

namespace quire {

struct GgmlTypeInfo;

/// One tensor of a checkpoint. Names are Hugging Face's, also for a GGUF file; shapes are row-major.
struct QUIRE_API WeightInfo {
  std::string name;
  std::vector<int64_t> shape;
  std::string stored_type;  ///< as the file names it: "BF16", "Q4_1", ...
  size_t stored_bytes = 0;

  int64_t rows() const { return shape.size() <= 1 ? 1 : shape[0]; }
  /// Elements of one row: the product of all dimensions but the first (all, for a vector).
  int64_t cols() const;
};

/// Reads a checkpoint's tensors. Everything about offsets, sizes and types was checked when it was opened. Thread-safe
/// for reading.
class QUIRE_API WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// All tensors, in file order.
  virtual std::span<const WeightInfo> tensors() const = 0;
  /// The tensor of that name, or nullptr.
  virtual const WeightInfo* find(std::string_view name) const = 0;

  /// Rows [begin, begin + count). Lent straight from the mapped file where its type is float32, bfloat16 or float16,
  /// else dequantized into `scratch` (resized as needed) as float32; valid until `scratch` or the source changes.
  virtual Result<MatrixView> read_rows(const WeightInfo& weight, int64_t begin, int64_t count,
                                       std::vector<float>& scratch) const = 0;

  /// The block format in which the tensor is stored, for stored_row(); nullptr for one of float values.
  virtual const GgmlTypeInfo* stored_block_type(const WeightInfo&) const { return nullptr; }
  /// One row's blocks as they lie in the file. Only where there is a stored_block_type().
  virtual const std::byte* stored_row(const WeightInfo&, int64_t) const { return nullptr; }

  /// The tensor is not needed any more: its pages may leave memory.
  virtual void release(const WeightInfo& weight) const = 0;

  /// The files that it reads; none where it reads memory.
  virtual std::vector<std::filesystem::path> files() const { return {}; }

  /// Where it was read from, for messages.
  virtual const std::string& description() const = 0;
};

/// A checkpoint as found on disk: its config and its tensors.
struct Checkpoint {
  std::filesystem::path path;
  bool is_gguf = false;
  ModelConfig config;
  std::unique_ptr<WeightSource> weights;
};

/// Opens a Hugging Face folder (model.safetensors or model.safetensors.index.json) or a .gguf file. Quantized
/// checkpoints of kinds that are not built (GPTQ, AWQ, ...), pickles, pointer files and damaged files are refused by
/// name with what to do.
Result<Checkpoint> open_checkpoint(const std::filesystem::path& path);

}  // namespace quire
