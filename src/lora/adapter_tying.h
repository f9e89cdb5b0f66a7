// ensure_weight_tying: the embedding and the head change alike, on a base model that ties them.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "lora/adapter_files.h"

namespace quire {

/// Of an adapter with ensure_weight_tying: sets AdapterModule::needs_head of the modules whose tensors say on which
/// kind of base model PEFT computes what they hold. PEFT trains one change of the embedding and its tied head and saves
/// it for both, the head's pair as the transpose of the embedding's; on such a base it loads one over the other, so
/// that they cannot differ.
Status judge_weight_tying(const WeightSource& tensors, std::span<AdapterModule> modules);

/// Refuses modules whose needs_head is not what the base model has, and a change of a tied head by itself beside one
/// that it takes over from the embedding. `where` begins the message.
Status check_needs_head(const std::string& where, std::span<const AdapterModule> modules, bool head_is_tied);

}  // namespace quire
