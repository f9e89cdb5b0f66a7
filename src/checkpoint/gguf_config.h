// A GGUF file's metadata -> ModelConfig.
#pragma once

#include "base/result.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/model_config.h"

namespace quire {

/// For the GGUF architectures llama (also Mistral's models), qwen2 and qwen3; others are refused by name, as are
/// experts, soft-capping and rotary scalings that are not handled.
Result<ModelConfig> gguf_model_config(const GgufFile& file);

}  // namespace quire
