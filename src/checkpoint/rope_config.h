// The rotary part of config.json, in its old and new spelling.
#pragma once

#include "checkpoint/json_fields.h"
#include "checkpoint/model_config.h"

namespace quire {

/// Reads rope_parameters, or rope_theta and rope_scaling. The theta inside the dictionary wins over the outer one, and
/// 10000 is the default, as in transformers. Problems are noted in `fields`. `max_position_embeddings` is the default
/// original length of yarn and llama3.
RopeConfig read_rope_config(JsonFields& fields, int64_t max_position_embeddings);

}  // namespace quire
