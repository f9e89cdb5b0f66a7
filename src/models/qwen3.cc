#include "models/qwen3.h"

#include "models/llama.h"

namespace quire {

Result<std::unique_ptr<Model>> make_qwen3(LayerContext& context, const ModelConfig& config) {
  LlamaOptions options;
  options.qkv_bias = config.attention_bias;
  options.output_bias = config.attention_bias;
  options.head_norms = true;
  return make_llama_like(context, config, options);
}

}  // namespace quire
