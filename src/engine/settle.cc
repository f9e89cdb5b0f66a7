#include "engine/settle.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/cpu_topology.h"
#include "layers/rotary_embedding.h"

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

}  // namespace

Result<WorkerSettings> settle_worker(const EngineConfig& config, const ModelConfig& model) {
  if (config.block_size < 16 || config.block_size % 16 != 0 || config.block_size > 4096) {
    return invalid_argument(
        fmt::format("--block-size {} is not a multiple of 16 between 16 and 4096", config.block_size), "block_size");
  }
  WorkerSettings settings;
  settings.storage = config.dtype.value_or(model.dtype);
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
