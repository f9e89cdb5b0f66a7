// Reading config.json as an ArchitectureConfig declares it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "checkpoint/architecture_config.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_family.h"

namespace quire {

/// The object under ModelConfig's names and with the declared defaults; refuses one that lacks a size, or has a field
/// under both its names.
Result<nlohmann::json> apply_declaration(const ArchitectureConfig& declared, const nlohmann::json& object,
                                         const std::string& where);

/// How ModelConfig's own fields are read. `architecture` and `declared` must outlive the family.
ModelFamily declared_family(std::string_view architecture, const ArchitectureConfig& declared);

/// Hands the model its own fields and notes in `fields` what it does not compute: fixed fields of another value, and
/// every field that nobody declared.
void judge_declared_fields(const ArchitectureConfig& declared, const ModelFamily& family, JsonFields& fields,
                           ModelConfig& config);

}  // namespace quire
