// Judges a request against the engine's limits before it is queued.
#pragma once

#include "base/result.h"
#include "engine/engine.h"
#include "engine/request.h"

namespace quire {

/// `limits` with blocks_per_group filled in where the caller gave one number for all groups.
EngineLimits with_blocks_per_group(EngineLimits limits, const std::vector<KvCacheGroup>& groups);

/// Tokens (prompt and output) that no request may exceed: the context, or what the cache can hold for one request if
/// that is less.
int64_t max_request_tokens(const EngineLimits& limits, const std::vector<KvCacheGroup>& groups);

/// An Error, with the numbers, for a request that can never run. `max_tokens` is the value of max_request_tokens().
Status judge_request(const EngineRequest& request, const EngineLimits& limits, int64_t max_tokens);

}  // namespace quire
