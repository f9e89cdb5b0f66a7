// Rank 0's executor where a model is divided over several ranks: it sends each step's plan to the others, runs its own
// part, and has the results.
#pragma once

#include <memory>

#include "engine/create_executor.h"
#include "engine/ranks/rank_host.h"

namespace quire {

/// create_executor() over the ranks of `host`. An Error of any rank ends all.
Result<LoadedExecutor> create_multi_rank_executor(const EngineConfig& config, Checkpoint&& checkpoint,
                                                  const ProgressCallback& progress, std::unique_ptr<RankHost> host);

}  // namespace quire
