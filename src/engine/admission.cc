#include "engine/admission.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/kv_cache_manager.h"

namespace quire {
namespace {

/// Salts are kept as long as pages that carry them.
constexpr size_t kMaxSaltBytes = 4096;
/// --max-logprobs is about what a client may ask for; the engine's own users may go beyond.
constexpr int64_t kNoCap = -1;

Status judge_prompt(const EngineRequest& request, const EngineLimits& limits, int64_t max_tokens) {
  const auto length = static_cast<int64_t>(request.prompt.size());
  if (length == 0) return invalid_argument("The prompt is empty: it must have at least one token.", "prompt");
  if (length + 1 > limits.max_model_len) {
    return invalid_argument(
        fmt::format("The prompt has {} tokens, but the context length is {} tokens and must leave room for one more; "
                    "shorten the prompt.",
                    length, limits.max_model_len),
        "prompt");
  }
  if (length + 1 > max_tokens) {
    return invalid_argument(
        fmt::format(
            "The prompt has {} tokens, but the KV cache holds {} tokens for one request and must leave room for "
            "one more; shorten the prompt or start with a larger --kv-cache-memory-bytes.",
            length, max_tokens),
        "prompt");
  }
  const auto outside = [&](int32_t token) { return token < 0 || token >= limits.vocab_size; };
  const auto bad = std::ranges::find_if(request.prompt, outside);
  if (bad == request.prompt.end()) return {};
  return invalid_argument(
      fmt::format("Token id {} at position {} of the prompt is out of vocabulary: ids are below {}.", *bad,
                  bad - request.prompt.begin(), limits.vocab_size),
      "prompt");
}

}  // namespace

EngineLimits with_blocks_per_group(EngineLimits limits, const std::vector<KvCacheGroup>& groups) {
  if (limits.blocks_per_group.empty()) limits.blocks_per_group.assign(groups.size(), limits.num_blocks);
  return limits;
}

int64_t max_request_tokens(const EngineLimits& limits, const std::vector<KvCacheGroup>& groups) {
  return std::min(limits.max_model_len,
                  longest_sequence(groups, limits.blocks_per_group, limits.block_size, limits.max_num_batched_tokens));
}

Status judge_request(const EngineRequest& request, const EngineLimits& limits, int64_t max_tokens) {
  QUIRE_RETURN_IF_ERROR(judge_prompt(request, limits, max_tokens));
  QUIRE_RETURN_IF_ERROR(validate(request.sampling, {kNoCap, limits.vocab_size}));
  if (request.cache_salt.size() > kMaxSaltBytes) {
    return invalid_argument(
        fmt::format("cache_salt has {} bytes, but may have at most {}.", request.cache_salt.size(), kMaxSaltBytes),
        "cache_salt");
  }
  return {};
}

}  // namespace quire
