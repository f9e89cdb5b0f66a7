// Recognises checkpoints whose weights are quantized in a way that is not built, before any weight is read.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace quire {

/// Refuses config.json's quantization_config, compression_config or MLX's quantization, by method and bits.
Status refuse_quantized_config(const nlohmann::json& config, const std::string& where);

/// Refuses a folder with quantize_config.json (GPTQ) or quant_config.json (AWQ), as older tools write them.
Status refuse_quantized_folder(const std::filesystem::path& folder);

}  // namespace quire
