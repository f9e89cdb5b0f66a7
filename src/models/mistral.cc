#include "models/mistral.h"

#include "models/llama.h"

namespace quire {

Result<std::unique_ptr<Model>> make_mistral(LayerContext& context, const ModelConfig& config) {
  return make_llama_like(context, config, LlamaOptions{});
}

}  // namespace quire
