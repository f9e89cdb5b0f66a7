// The rotary part of a GGUF file: keys below "<architecture>.rope." and the tensor rope_freqs.weight.
#pragma once

#include "base/result.h"
#include "checkpoint/gguf_metadata.h"
#include "checkpoint/model_config.h"

namespace quire {

/// Reads theta and scaling (none, linear, yarn) into config.rope; others are refused by name. Problems are noted in
/// `metadata`. config.max_position_embeddings must be set.
void read_gguf_rope(GgufMetadata& metadata, ModelConfig& config);

/// rope_freqs.weight holds the effect of llama3's scaling, not its parameters: finds the ones that give it, or refuses.
/// Nothing happens when the file has no such tensor. config.head_dim and config.rope must be set.
Status recover_llama3_rope(const GgufFile& file, ModelConfig& config);

}  // namespace quire
