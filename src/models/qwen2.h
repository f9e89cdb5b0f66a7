// Qwen2ForCausalLM: Llama with biases on q, k and v only.
#pragma once

#include "models/model.h"

namespace quire {

Result<std::unique_ptr<Model>> make_qwen2(LayerContext& context, const ModelConfig& config);

}  // namespace quire
