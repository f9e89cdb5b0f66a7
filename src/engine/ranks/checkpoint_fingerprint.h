// Whether a checkpoint on disk is still the one that was loaded: ranks that are started again must read the same.
#pragma once

#include <span>
#include <string>

#include "checkpoint/weight_source.h"

namespace quire {

/// Name, size, time of the last change and a hash of the beginning of each file that a rank reads: config.json, those
/// with weights (of a safetensors file the whole header is hashed) and the plugins. Other files of the folder do not
/// matter, nor those of adapters, which rank 0 keeps.
std::string fingerprint_of(const Checkpoint& checkpoint, std::span<const std::string> model_plugins);

}  // namespace quire
