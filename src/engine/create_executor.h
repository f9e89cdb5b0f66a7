// From a checkpoint to an executor that has it loaded: in this process, or over several ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "checkpoint/weight_source.h"
#include "engine/engine.h"
#include "engine/engine_config.h"
#include "engine/executor.h"

namespace quire {

/// Told of the load: stored bytes done, and all of them.
using ProgressCallback = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

struct LoadedExecutor {
  std::unique_ptr<Executor> executor;
  EngineLimits limits;
  std::string kv_summary;  ///< what was chosen, for the start-up log
};

/// Loads the checkpoint's model for `config`, settles dtypes, cache size and limits; with a tensor parallel size above
/// 1 starts the other ranks. Errors are one sentence.
Result<LoadedExecutor> create_executor(const EngineConfig& config, Checkpoint&& checkpoint,
                                       const ProgressCallback& progress);

}  // namespace quire
