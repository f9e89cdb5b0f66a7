// Adapters from PEFT folders into the engine.
#pragma once

#include <memory>

#include "api/loaded_adapter.h"
#include "engine/engine.h"

namespace quire {

/// Opens folders and hands them to `engine`, which must outlive it. Refuses what is above config.max_lora_rank.
std::unique_ptr<AdapterMemory> make_engine_adapter_memory(Engine& engine, const LoraConfig& config);

}  // namespace quire
