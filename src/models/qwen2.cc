#include "models/qwen2.h"

#include "models/llama.h"

namespace quire {

Result<std::unique_ptr<Model>> make_qwen2(LayerContext& context, const ModelConfig& config) {
  LlamaOptions options;
  options.qkv_bias = true;
  return make_llama_like(context, config, options);
}

}  // namespace quire
