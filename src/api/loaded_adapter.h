// An adapter in memory, and what holds it there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "lora/lora_adapter.h"

namespace quire {

/// One load of an adapter. Its id was never used before and will never be again.
struct LoadedAdapter {
  uint64_t id = 0;
  std::string name;
  std::string path;
  AdapterSummary summary;
};

/// Each request under way holds one. The weights leave memory when the adapter's name is gone (or names another load)
/// and the last lease ends.
using AdapterLease = std::shared_ptr<const LoadedAdapter>;

/// Called once; must be quick and must not throw.
using AdapterReady = std::function<void(Result<AdapterLease>)>;

/// Where adapters are loaded into: the engine in the program, a script in tests. Thread-safe.
class AdapterMemory {
 public:
  virtual ~AdapterMemory() = default;
  /// Reads the folder under a fresh id. Slow. An Error leaves nothing behind; of kind kNotFound, there is no such
  /// folder.
  virtual Result<AdapterSummary> load(uint64_t id, const std::filesystem::path& folder) = 0;
  virtual void remove(uint64_t id) = 0;
};

}  // namespace quire
