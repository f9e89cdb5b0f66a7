// Gives ids to loads of adapters and frees each when its last holder lets go.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "api/loaded_adapter.h"
#include "base/histogram.h"

namespace quire {

/// Numbers of all loads so far.
struct LoadCounters {
  int64_t loaded = 0;  ///< adapters in memory now, those that only finish their last requests too
  int64_t bytes = 0;   ///< of them
  int64_t loads = 0, failures = 0;
  Histogram load_seconds{{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}};
};

/// Thread-safe. Outlives the catalog where a request still holds an adapter.
class AdapterLedger : public std::enable_shared_from_this<AdapterLedger> {
 public:
  explicit AdapterLedger(std::unique_ptr<AdapterMemory> memory) : memory_(std::move(memory)) {}

  /// Loads under a fresh id; the last copy of the result that ends frees it. Logs what was loaded.
  Result<std::shared_ptr<const LoadedAdapter>> load(const std::string& name, const std::string& path);
  /// The memory goes away with all that is in it: what ends later frees nothing.
  void close();

  LoadCounters counters() const;
  /// The name under which an id was loaded; empty once it has left memory.
  std::string name_of(uint64_t id) const;

 private:
  void remove(const LoadedAdapter& adapter);
  void book(double seconds, const Result<AdapterSummary>& summary, uint64_t id, const std::string& name);

  std::mutex memory_mutex_;  ///< removals against close()
  std::unique_ptr<AdapterMemory> memory_;
  mutable std::mutex mutex_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, std::string> names_;  ///< of what is in memory
  LoadCounters counters_;
};

}  // namespace quire
