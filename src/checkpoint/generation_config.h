// generation_config.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "checkpoint/model_config.h"

namespace quire {

/// Reads the sampling defaults and end tokens that vLLM takes from the file: temperature, top_p, top_k, min_p,
/// repetition_penalty, max_new_tokens and eos_token_id; as there, they hold whether or not do_sample is set.
Result<GenerationConfig> parse_generation_config(const nlohmann::json& object, const std::string& where);

}  // namespace quire
