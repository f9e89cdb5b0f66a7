// What AdapterCatalog and the leases share: the entries, the loader, and the rules of who leaves memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/adapter_catalog.h"
#include "api/adapter_folder.h"
#include "base/task_pool.h"

namespace quire {

/// The answers to those who come too late, or at the wrong time.
Error unknown_adapter(const std::string& name);
Error loader_is_closing();
Error too_many_loads();

struct AdapterCatalog::State : std::enable_shared_from_this<AdapterCatalog::State> {
  State(const Options& given, std::unique_ptr<AdapterMemory> memory)
      : options(given), folder(given.folder), ledger(std::make_shared<AdapterLedger>(std::move(memory))) {}

  using Adapter = std::shared_ptr<const LoadedAdapter>;

  struct Entry {
    AdapterSpec spec;
    bool from_folder = false;  ///< forgotten when it leaves memory: the folder knows it
    bool proven = false;       ///< was in memory: a failure to load it again does not forget the name
    uint64_t serial = 0;       ///< tells an entry from an older one of its name
    Adapter adapter;           ///< nullptr while it is not in memory
    uint64_t last_used = 0;
    bool loading = false;
    std::vector<AdapterReady> waiting;
  };
  /// What to do once the mutex is free: answer callers, let adapters go.
  struct Aftermath {
    std::vector<std::pair<AdapterReady, Result<AdapterLease>>> answers;
    std::vector<Adapter> dropped;

    void run() {
      dropped.clear();
      for (auto& [ready, result] : answers) ready(std::move(result));
    }
  };

  Status judge_new(const AdapterSpec& spec, bool in_place) const;
  AdapterLease lend(Entry& entry);
  void trim(Aftermath& after);
  void trim();
  void settle(Entry& entry, Adapter adapter, Aftermath& after);
  void fail(std::map<std::string, Entry>::iterator entry, const Error& error, Aftermath& after);
  void load_new(const AdapterSpec& spec, bool in_place, const AdapterReady& ready);
  void load_known(const std::string& name, uint64_t serial);
  std::map<std::string, Entry>::iterator add_unloaded(const AdapterSpec& spec, bool from_folder);
  void await(std::unique_lock<std::mutex>& lock, std::map<std::string, Entry>::iterator entry, AdapterReady ready);

  const Options options;
  const AdapterFolder folder;
  const std::shared_ptr<AdapterLedger> ledger;
  mutable std::mutex mutex;
  std::map<std::string, Entry> entries;
  std::set<std::string> reserved;
  uint64_t clock = 0;  ///< of last_used and serial
  int64_t evictions = 0, unloads = 0;
  bool closed = false;
  std::unique_ptr<TaskPool> loader = std::make_unique<TaskPool>(1, options.max_queued_loads);
};

}  // namespace quire
