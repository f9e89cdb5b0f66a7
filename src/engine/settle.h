// What a model's executor settles from the flags, the checkpoint and the machine before anything is loaded or reserved.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "checkpoint/weight_source.h"
#include "engine/engine_config.h"
#include "engine/worker.h"

namespace quire {

/// Types, quantization, positions and block size. An Error says which flag asks for what the model does not have.
Result<WorkerSettings> settle_worker(const EngineConfig& config, const Checkpoint& checkpoint);

/// Blocks of each group, the same number for all: what the memory allows, of which one block of every group takes
/// `bytes_per_block` (all ranks together). Asked once weights are loaded.
Result<std::vector<int64_t>> settle_blocks(const EngineConfig& config, size_t groups, int64_t bytes_per_block);

/// Bytes of all tensors as stored.
int64_t stored_bytes(const WeightSource& weights);

}  // namespace quire
