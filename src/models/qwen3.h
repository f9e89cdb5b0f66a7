// Qwen3ForCausalLM: Llama with a norm on each query and key head; biases where attention_bias says so.
#pragma once

#include "models/model.h"

namespace quire {

Result<std::unique_ptr<Model>> make_qwen3(LayerContext& context, const ModelConfig& config);

}  // namespace quire
