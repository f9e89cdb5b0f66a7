// The life of a rank other than 0: it loads its part of the model and does what rank 0 says until that says stop.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "distributed/rank_transport.h"

namespace quire {

/// Runs on the calling thread, which computes the rank's steps. Returns when rank 0 has said stop, or with the Error
/// that ended the ranks; all of them have been told.
Status serve_rank(std::unique_ptr<RankTransport> transport);

/// To be called first in main. Where this process was started as a rank, it is one until it ends with this exit code;
/// else nothing.
std::optional<int> run_as_rank();

}  // namespace quire
