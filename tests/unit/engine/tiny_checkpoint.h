// Small checkpoints of any shape, written as a Hugging Face folder or as a GGUF file.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoint/ggml_type.h"
#include "engine/reference_decoder.h"
#include "tensor/dtype.h"

namespace quire::testing {

/// Every tensor that the shape's family has, filled with values that float32, bfloat16 and float16 all hold exactly.
TensorMap random_tensors(const DecoderShape& shape, uint32_t seed);

/// config.json for a shape.
nlohmann::json config_of(const DecoderShape& shape);

/// Writes config.json and model.safetensors; `dtype_of` chooses how a tensor is stored.
void write_folder(const std::filesystem::path& folder, const nlohmann::json& config, const TensorMap& tensors,
                  const std::function<DType(const std::string& name)>& dtype_of);

/// Writes a GGUF file as llama.cpp's converter would: matrices as `type`, the rest and rows that are no whole blocks as
/// F32. Quantized types get what `blocks_of` makes of a matrix's values, or random blocks; `tensors` is then changed to
/// the values that those stand for.
void write_gguf(const std::filesystem::path& path, const DecoderShape& shape, TensorMap& tensors, GgmlType type,
                const std::function<std::string(const std::vector<float>&)>& blocks_of = {});

/// All tensors of a checkpoint on disk, as float32.
TensorMap read_tensors(const std::filesystem::path& path);

}  // namespace quire::testing
