// MistralForCausalLM: Llama without biases; its layers see a sliding window where the config gives one.
#pragma once

#include "models/model.h"

namespace quire {

Result<std::unique_ptr<Model>> make_mistral(LayerContext& context, const ModelConfig& config);

}  // namespace quire
