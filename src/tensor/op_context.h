// What every op gets first: where it runs, and what it may run with.
#pragma once

#include "base/thread_pool.h"
#include "tensor/device.h"
#include "tensor/workspace.h"

namespace quire {

/// One per rank, used by the thread that runs its steps.
struct OpContext {
  Device device;
  ThreadPool* pool = nullptr;
  Workspace* workspace = nullptr;
};

}  // namespace quire
