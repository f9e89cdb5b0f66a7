// The fields of adapter_config.json that no number is taken from: harmless, or refused unless they are off.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoint/json_fields.h"

namespace quire {

/// null, false, 0, "", [] and {}: a field that is off.
bool is_off(const nlohmann::json& value);

/// init_lora_weights: some initializations subtract what the pair starts with from the base weights, so that the pair
/// alone, over the original base, gives other results. The others only choose where training begins.
void judge_initialization(JsonFields& fields, const std::string& where);

/// Refuses by name the fields that change results in a way that is not built, and the unknown ones that are on. Called
/// after all others have been read.
void judge_other_fields(const nlohmann::json& object, JsonFields& fields, const std::string& where);

}  // namespace quire
