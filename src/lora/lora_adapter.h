// An adapter's weights as the layers of one rank use them.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "lora/adapter_files.h"

namespace quire {

/// Numbers of a loaded adapter, for logs and metrics.
struct AdapterSummary {
  int64_t max_rank = 0;
  int64_t modules = 0;  ///< modules of the base model that it changes
  int64_t bytes = 0;    ///< that its packed weights take on this rank
};

}  // namespace quire
