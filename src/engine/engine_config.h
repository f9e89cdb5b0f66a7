// Every engine setting, named as vLLM's flags are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/hub_options.h"
#include "sampling/sampling_params.h"
#include "tensor/dtype.h"

namespace quire {

/// What --quantization takes, for messages.
inline constexpr const char* kQuantizations =
    "supported are auto, none, int8 (int8 weights and rows), int4 (4-bit weights in groups of 32) and gguf (Q4_0, "
    "Q4_1, Q8_0, Q4_K and Q6_K as the file stores them)";

enum class SchedulingPolicy : uint8_t { kFcfs, kPriority };

/// How adapters are served. Limits are none where they are not given.
struct LoraConfig {
  bool enabled = false;                  ///< --enable-lora
  std::optional<int64_t> max_loras;      ///< --max-loras: distinct adapters in a step
  std::optional<int64_t> max_lora_rank;  ///< --max-lora-rank: adapters above it are refused
  std::optional<int64_t> max_cpu_loras;  ///< --max-cpu-loras: above it the longest unused idle adapter leaves memory
  std::optional<DType> dtype;  ///< --lora-dtype: storage type of adapters; none is that of the model's weights
  bool fully_sharded = false;  ///< --fully-sharded-loras: tensor parallel ranks divide both matrices of an adapter
  std::string folder;          ///< --lora-dir: each sub-folder is an adapter; empty: none
};

struct EngineConfig {
  std::string model;                       ///< a Hugging Face folder, a .gguf file, or a hub's ORG/NAME
  std::string model_path;                  ///< where a hub's model lies on this machine; empty: at `model`
  HubOptions hub;                          ///< --revision, --download-dir, --hf-token
  std::string tokenizer_revision;          ///< --tokenizer-revision, of a tokenizer from a hub; empty: main
  std::vector<std::string> model_plugins;  ///< --model-plugin: a library, or ARCHITECTURE=LIBRARY
  std::string ignore_unexpected_weights;   ///< --ignore-unexpected-weights: a regular expression; empty: none
  std::optional<DType> dtype;              ///< --dtype; none is auto
  std::string quantization = "auto";       ///< --quantization: auto, none, int8, int4 or gguf
  bool quantize_lm_head = false;           ///< --quantize-lm-head: int8 and int4 for embedding and output head too
  std::optional<DType> kv_cache_dtype;   ///< --kv-cache-dtype; none is auto: float32 for float32 weights, else bfloat16
  std::optional<int64_t> max_model_len;  ///< --max-model-len; none: from the config, -1: what the cache holds
  int64_t block_size = 16;               ///< --block-size, a multiple of 16
  std::optional<int64_t> kv_cache_memory_bytes;   ///< --kv-cache-memory-bytes
  std::optional<int64_t> num_kv_blocks_override;  ///< --num-gpu-blocks-override: blocks of each group, for tests
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  std::optional<int64_t> max_num_batched_tokens;  ///< none is auto: at most 2048 for the server, 4096 offline
  int64_t target_itl_ms = 100;  ///< --target-itl-ms: what auto keeps steps with decodes to
  std::optional<int64_t> max_num_seqs;            ///< none: 128 for the server, 256 offline
  int64_t long_prefill_token_threshold = 0;       ///< 0: prompts above max_num_batched_tokens count as long
  SchedulingPolicy scheduling_policy = SchedulingPolicy::kFcfs;
  LoraConfig lora;
  int64_t max_logprobs = 20;
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;  ///< --logprobs-mode
  int64_t seed = 0;
  int threads = 0;                                ///< --threads, of all ranks together; 0: from affinity and quota
  int tensor_parallel_size = 1;                   ///< --tensor-parallel-size: ranks that hold a part of each layer
  int pipeline_parallel_size = 1;                 ///< --pipeline-parallel-size: stages that hold some of the layers
  std::vector<int64_t> pipeline_layer_partition;  ///< --pipeline-layer-partition: layers of each stage; empty: evenly
  int max_rank_restarts = 3;  ///< --max-rank-restarts: how often within 10 minutes failed ranks are started anew

  /// Where the model lies.
  const std::string& path() const { return model_path.empty() ? model : model_path; }
  /// Ranks of the model together.
  int ranks() const { return tensor_parallel_size * pipeline_parallel_size; }
  bool use_generation_config =
      true;  ///< --generation-config auto; false ("vllm"): generation_config.json gives no sampling defaults
  bool offline = false;                     ///< picks the offline defaults
  bool check_integrity_every_step = false;  ///< in tests
};

}  // namespace quire
