// Joins an adapter's tensors into modules and holds them against the adapter's config.
#pragma once

#include <vector>

#include "base/result.h"
#include "checkpoint/weight_source.h"
#include "lora/adapter_config.h"
#include "lora/adapter_files.h"

namespace quire {

/// The modules that `tensors` change, in the order of their layers. Every tensor is part of one, or the adapter is
/// refused naming it; so is one that the config contradicts, since PEFT would leave it out or fail. A module may have a
/// base_copy and nothing else.
Result<std::vector<AdapterModule>> read_adapter_modules(const AdapterConfig& config, const WeightSource& tensors);

}  // namespace quire
