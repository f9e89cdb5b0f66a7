// settle_limits: what the flags, the model's context and the cache's size make of each other.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>

#include "engine/engine.h"
#include "engine/kv_cache_manager.h"

namespace quire {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

Status check_flags(const EngineConfig& config) {
  if (config.block_size < 16 || config.block_size % 16 != 0) {
    return invalid_argument(
        fmt::format("--block-size is {}, but must be a positive multiple of 16.", config.block_size), "block_size");
  }
  const auto positive = [](const char* flag, const char* name, const std::optional<int64_t>& value) -> Status {
    if (!value || *value >= 1) return {};
    return invalid_argument(fmt::format("{} is {}, but must be at least 1.", flag, *value), name);
  };
  QUIRE_RETURN_IF_ERROR(positive("--max-num-batched-tokens", "max_num_batched_tokens", config.max_num_batched_tokens));
  QUIRE_RETURN_IF_ERROR(positive("--target-itl-ms", "target_itl_ms", config.target_itl_ms));
  QUIRE_RETURN_IF_ERROR(positive("--max-num-seqs", "max_num_seqs", config.max_num_seqs));
  if (config.max_model_len && *config.max_model_len != -1) {
    QUIRE_RETURN_IF_ERROR(positive("--max-model-len", "max_model_len", config.max_model_len));
  }
  if (config.long_prefill_token_threshold < 0) {
    return invalid_argument(fmt::format("--long-prefill-token-threshold is {}, but must not be negative.",
                                        config.long_prefill_token_threshold),
                            "long_prefill_token_threshold");
  }
  if (config.max_logprobs < -1) {
    return invalid_argument(fmt::format("--max-logprobs is {}, but must be -1 (no cap) or more.", config.max_logprobs),
                            "max_logprobs");
  }
  return {};
}

Status check_blocks(const std::vector<int64_t>& blocks_per_group, const std::vector<KvCacheGroup>& groups) {
  if (groups.empty() || blocks_per_group.size() != groups.size()) {
    return internal_error(
        fmt::format("The KV cache has {} groups of layers, but sizes for {}.", groups.size(), blocks_per_group.size()));
  }
  if (std::ranges::min(blocks_per_group) >= 1) return {};
  return invalid_argument("The KV cache's memory does not hold one block; raise --kv-cache-memory-bytes.",
                          "kv_cache_memory_bytes");
}

/// The context to serve: asked for, or the model's, cut to what the cache holds for one request (`capacity`).
Result<int64_t> settle_context(const EngineConfig& config, int64_t model_context, int64_t capacity) {
  const bool asked = config.max_model_len && *config.max_model_len != -1;
  if (!asked) {
    const int64_t context = model_context > 0 ? model_context : kUnlimited;
    if (std::min(context, capacity) == kUnlimited) {
      return invalid_argument("The model states no context length; give one with --max-model-len.", "max_model_len");
    }
    if (capacity < context) {
      spdlog::warn(
          "The context length is {} tokens: the model allows {}, but that is what the KV cache holds for one request; "
          "a larger --kv-cache-memory-bytes raises it.",
          capacity, context);
    }
    return std::min(context, capacity);
  }
  const int64_t wanted = *config.max_model_len;
  if (model_context > 0 && wanted > model_context) {
    return invalid_argument(
        fmt::format("--max-model-len is {}, but the model's context is {} tokens.", wanted, model_context),
        "max_model_len");
  }
  if (wanted > capacity) {
    return invalid_argument(
        fmt::format("--max-model-len is {}, but the KV cache holds only {} tokens for one request; lower it, or raise "
                    "--kv-cache-memory-bytes.",
                    wanted, capacity),
        "max_model_len");
  }
  return wanted;
}

/// Budget and number of sequences; the context is settled.
Status settle_batch(const EngineConfig& config, EngineLimits& limits) {
  const int64_t default_tokens = config.offline ? 4096 : 2048;
  const int64_t default_seqs = config.offline ? 256 : 128;
  if (config.max_num_batched_tokens) {
    limits.max_num_batched_tokens = *config.max_num_batched_tokens;
  } else {
    limits.max_num_batched_tokens =
        config.enable_chunked_prefill ? default_tokens : std::max(default_tokens, limits.max_model_len);
  }
  if (!config.enable_chunked_prefill && limits.max_num_batched_tokens < limits.max_model_len) {
    return invalid_argument(fmt::format("--max-num-batched-tokens is {}, but without chunked prefill it must be at "
                                        "least the context length of {}: a prompt "
                                        "runs whole; raise it, lower --max-model-len, or use --enable-chunked-prefill.",
                                        limits.max_num_batched_tokens, limits.max_model_len),
                            "max_num_batched_tokens");
  }
  limits.max_num_seqs = config.max_num_seqs.value_or(std::min(default_seqs, limits.max_num_batched_tokens));
  // A default budget grows with the sequences asked for; one that was given is not changed.
  if (!config.max_num_batched_tokens) {
    limits.max_num_batched_tokens = std::max(limits.max_num_batched_tokens, limits.max_num_seqs);
    if (config.enable_chunked_prefill) limits.target_itl_seconds = static_cast<double>(config.target_itl_ms) / 1000;
  }
  if (limits.max_num_batched_tokens < limits.max_num_seqs) {
    return invalid_argument(
        fmt::format("--max-num-batched-tokens is {}, but must be at least --max-num-seqs ({}): each running request "
                    "needs a token per step.",
                    limits.max_num_batched_tokens, limits.max_num_seqs),
        "max_num_batched_tokens");
  }
  return {};
}

}  // namespace

Result<EngineLimits> settle_limits(const EngineConfig& config, int64_t model_context, int64_t vocab_size,
                                   const std::vector<int64_t>& blocks_per_group,
                                   const std::vector<KvCacheGroup>& groups) {
  QUIRE_RETURN_IF_ERROR(check_flags(config));
  QUIRE_RETURN_IF_ERROR(check_blocks(blocks_per_group, groups));
  EngineLimits limits;
  limits.block_size = config.block_size;
  limits.blocks_per_group = blocks_per_group;
  limits.num_blocks = blocks_per_group.front();
  limits.kv_cache_tokens = std::ranges::min(blocks_per_group) * config.block_size;
  limits.vocab_size = vocab_size;
  limits.max_logprobs = config.max_logprobs;

  // The largest step bounds the blocks that a sliding window needs; without chunking a step may be a whole prompt.
  const int64_t default_tokens = std::max<int64_t>(config.offline ? 4096 : 2048, config.max_num_seqs.value_or(0));
  int64_t chunk = config.max_num_batched_tokens.value_or(default_tokens);
  if (!config.enable_chunked_prefill) chunk = std::max(chunk, limits.kv_cache_tokens);
  const int64_t capacity = longest_sequence(groups, blocks_per_group, config.block_size, chunk);
  QUIRE_ASSIGN_OR_RETURN(limits.max_model_len, settle_context(config, model_context, capacity));
  QUIRE_RETURN_IF_ERROR(settle_batch(config, limits));
  if (config.long_prefill_token_threshold > limits.max_model_len) {
    return invalid_argument(
        fmt::format("--long-prefill-token-threshold is {}, but must not exceed the context length of {}.",
                    config.long_prefill_token_threshold, limits.max_model_len),
        "long_prefill_token_threshold");
  }
  return limits;
}

}  // namespace quire
