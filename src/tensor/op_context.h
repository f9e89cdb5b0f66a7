// What every op gets first: where it runs, and what it may run with.
#pragma once

#include <optional>

#include "base/result.h"
#include "base/thread_pool.h"
#include "tensor/device.h"
#include "tensor/workspace.h"

namespace quire {

/// One per rank, used by the thread that runs its steps.
struct OpContext {
  Device device;
  ThreadPool* pool = nullptr;
  Workspace* workspace = nullptr;

  /// The first failure of an operation between ranks. A model's forward pass has no way out for it: it goes on, layers
  /// leave out what they can, what it computes means nothing, and whoever runs the step looks here at its end.
  std::optional<Error> failure;

  /// Keeps the Error of `status`, if it has one and none is kept yet.
  void keep(const Status& status) {
    if (!status.ok() && !failure) failure = status.error();
  }
};

}  // namespace quire
