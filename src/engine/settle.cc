#include "engine/settle.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/cpu_topology.h"
#include "layers/rotary_embedding.h"
#include "quantization/linear_method.h"

namespace quire {

namespace {

/// Without --kv-cache-memory-bytes the cache may take this share of the memory that is still free once weights are
/// loaded. Pages are touched only as they are used, so a small load never holds it.
constexpr double kDefaultCacheShare = 0.5;

/// Positions that rotary tables must cover: what the flag asks for, else what the model's rope covers.
Result<int64_t> settle_positions(const EngineConfig& config, const ModelConfig& model) {
  const int64_t native = rope_context_length(model);
  const int64_t asked = config.max_model_len.value_or(-1);
  if (asked <= native) return asked > 0 ? asked : native;
  if (model.rope.type != RopeType::kDynamic) {
    return invalid_argument(
        fmt::format("--max-model-len {} is beyond the {} positions that the model's config covers", asked, native),
        "max_model_len");
  }
  spdlog::warn(
      "--max-model-len {} is beyond the model's original context of {}: dynamic rope scaling is computed with one "
      "base for the whole context, as vLLM does, and short prompts then differ from transformers",
      asked, native);
  return asked;
}

bool has_weights_for_gguf(const Checkpoint& checkpoint) {
  return std::ranges::any_of(checkpoint.weights->tensors(), [&](const WeightInfo& weight) {
    const GgmlTypeInfo* const type = checkpoint.weights->stored_block_type(weight);
    return type != nullptr && multiplies_as_stored(*type);
  });
}

/// A quantized GGUF file is multiplied as stored unless --dtype asks for float weights.
Result<std::string> settle_quantization(const EngineConfig& config, const Checkpoint& checkpoint) {
  const std::string& name = config.quantization;
  const bool stored = has_weights_for_gguf(checkpoint);
  if (config.quantize_lm_head && name != "int8" && name != "int4") {
    return invalid_argument("--quantize-lm-head goes with --quantization int8 or int4, not " + name,
                            "quantize_lm_head");
  }
  if (name == "none") return std::string();
  if (name == "auto") return std::string(stored && !config.dtype ? "gguf" : "");
  if (name == "int8" || name == "int4") return name;
  if (name != "gguf") {
    return invalid_argument(fmt::format("--quantization {} is not supported: {}", name, kQuantizations),
                            "quantization");
  }
  if (stored) return name;
  return invalid_argument(
      fmt::format("--quantization gguf: {} has no tensor of type Q4_0, Q4_1, Q8_0, Q4_K or Q6_K, so there is nothing "
                  "to multiply as stored",
                  checkpoint.path.string()),
      "quantization");
}

}  // namespace

Result<WorkerSettings> settle_worker(const EngineConfig& config, const Checkpoint& checkpoint) {
  const ModelConfig& model = checkpoint.config;
  if (config.block_size < 16 || config.block_size % 16 != 0 || config.block_size > 4096) {
    return invalid_argument(
        fmt::format("--block-size {} is not a multiple of 16 between 16 and 4096", config.block_size), "block_size");
  }
  WorkerSettings settings;
  settings.storage = config.dtype.value_or(model.dtype);
  QUIRE_ASSIGN_OR_RETURN(settings.quantization, settle_quantization(config, checkpoint));
  settings.quantize_lm_head = config.quantize_lm_head;
  settings.lora = config.lora.dtype.value_or(settings.storage);
  settings.kv_cache =
      config.kv_cache_dtype.value_or(settings.storage == DType::kFloat32 ? DType::kFloat32 : DType::kBFloat16);
  QUIRE_ASSIGN_OR_RETURN(settings.max_positions, settle_positions(config, model));
  settings.block_size = config.block_size;
  settings.ignore_unexpected_weights = config.ignore_unexpected_weights;
  settings.layers_per_stage = config.pipeline_layer_partition;
  settings.fully_sharded_loras = config.lora.fully_sharded;
  return settings;
}

Result<std::vector<int64_t>> settle_blocks(const EngineConfig& config, size_t groups, int64_t bytes_per_block) {
  if (config.num_kv_blocks_override) return std::vector<int64_t>(groups, *config.num_kv_blocks_override);
  const int64_t budget = config.kv_cache_memory_bytes.value_or(
      static_cast<int64_t>(kDefaultCacheShare * static_cast<double>(available_memory())));
  const int64_t blocks = budget / bytes_per_block;
  if (blocks < 1) {
    return invalid_argument(fmt::format("the KV cache may take {} bytes, but one block of {} tokens takes {}: raise "
                                        "--kv-cache-memory-bytes or free memory",
                                        budget, config.block_size, bytes_per_block),
                            "kv_cache_memory_bytes");
  }
  return std::vector<int64_t>(groups, blocks);
}

int64_t stored_bytes(const WeightSource& weights) {
  int64_t total = 0;
  for (const WeightInfo& weight : weights.tensors()) total += static_cast<int64_t>(weight.stored_bytes);
  return total;
}

}  // namespace quire
