// The adapters that a service offers, by name: loads them on a thread of its own, lends them to requests, lets idle
// ones leave memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/adapter_ledger.h"
#include "api/loaded_adapter.h"
#include "base/result.h"

namespace quire {

struct AdapterSpec {
  std::string name;
  std::string path;             ///< a PEFT folder; "~/" is the home folder; or what stands for `folder`
  std::string base_model_name;  ///< what /v1/models gives as parent; empty: the served model
  bool pinned = false;          ///< never leaves memory for lack of use
  std::string folder;           ///< where a hub's adapter lies on this machine; empty: at `path`
};

/// One row of /v1/models.
struct AdapterListing {
  AdapterSpec spec;
  std::optional<uint64_t> id;  ///< while it is in memory
};

struct CatalogStats {
  LoadCounters loads;
  int64_t evictions = 0, unloads = 0;
};

/// Thread-safe; no call waits for a load. Each load has a new id, so that what runs goes on with the weights that it
/// began with, whatever becomes of the name meanwhile.
class AdapterCatalog {
 public:
  struct Options {
    /// More adapters in memory than this: of those without a request and not pinned the longest unused leaves, to be
    /// read again on its next use. Adapters in use never leave, even if that means more than this.
    std::optional<int64_t> max_loaded;
    std::filesystem::path folder;   ///< --lora-dir; empty: none
    size_t max_queued_loads = 256;  ///< beyond: kUnavailable
  };

  AdapterCatalog(const Options& options, std::unique_ptr<AdapterMemory> memory);
  ~AdapterCatalog();  ///< close()
  AdapterCatalog(const AdapterCatalog&) = delete;
  AdapterCatalog& operator=(const AdapterCatalog&) = delete;

  /// Names that no adapter may take: those of the base model.
  void reserve_names(const std::vector<std::string>& names);

  /// Adds an adapter, or with `in_place` replaces one of that name; a failure leaves the old one as it was. `ready` is
  /// called here for what can be judged at once, else by the loader's thread.
  void load(const AdapterSpec& spec, bool in_place, AdapterReady ready);
  /// The adapter of that name, from memory at once or loaded first; requests that come meanwhile share one load.
  /// kNotFound for a name that is not known.
  void acquire(const std::string& name, AdapterReady ready);
  /// The adapter of spec.name, which is added if it is not known; an Error when it is known with another path.
  void use(const AdapterSpec& spec, AdapterReady ready);
  /// load() and use() that wait.
  Result<AdapterLease> load_and_wait(const AdapterSpec& spec, bool in_place);
  Result<AdapterLease> use_and_wait(const AdapterSpec& spec);
  /// Forgets the name (with `id` only if it names that load, or, with an empty name, the adapter of that id) and
  /// returns it. Requests under way finish.
  Result<std::string> unload(const std::string& name, std::optional<uint64_t> id);

  bool knows(const std::string& name) const;
  std::optional<AdapterSpec> find(const std::string& name) const;
  std::vector<AdapterListing> list() const;  ///< sorted by name; reads the folder
  CatalogStats stats() const;
  std::string name_of(uint64_t id) const;  ///< of an adapter in memory, unloaded ones too

  /// Stops the loader; waiting calls get kUnavailable. The memory is not touched any more.
  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;  ///< shared with the leases
};

}  // namespace quire
