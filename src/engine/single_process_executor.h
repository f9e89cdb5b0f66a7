// The executor of one rank in this process.
#pragma once

#include "engine/create_executor.h"

namespace quire {

/// create_executor() for a tensor parallel size of 1.
Result<LoadedExecutor> create_single_process_executor(const EngineConfig& config, Checkpoint&& checkpoint,
                                                      const ProgressCallback& progress);

}  // namespace quire
