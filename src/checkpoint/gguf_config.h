// A GGUF file's metadata -> ModelConfig, judged as config.json is.
#pragma once

#include "base/result.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/model_config_json.h"

namespace quire {

/// For the GGUF architectures llama (also Mistral's models), qwen2 and qwen3; others are refused by name, as are
/// experts, soft-capping and every other key below the architecture's name that changes the result and is not handled.
/// general.sampling.* become the sampling defaults.
Result<JudgedConfig> gguf_model_config(const GgufFile& file);

}  // namespace quire
