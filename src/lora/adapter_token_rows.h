// trainable_token_indices: rows of tokens that replace the base's, of the embedding and of the head.
#pragma once

#include "base/result.h"
#include "lora/adapter_config.h"
#include "lora/module_drafts.h"

namespace quire {

/// Gives the modules that have rows of tokens their ids, and says where a tied head changes with the embedding. The
/// Error names rows that the config does not explain, or tokens of the config that have no rows.
Status judge_token_rows(const AdapterConfig& config, const WeightSource& tensors, ModuleDrafts& drafts);

}  // namespace quire
