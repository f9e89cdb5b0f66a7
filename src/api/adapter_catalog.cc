#include "api/adapter_catalog.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "api/adapter_folder.h"
#include "base/task_pool.h"

namespace quire {
namespace {

constexpr size_t kMaxNameBytes = 256;

Status judge_name(const std::string& name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (name.empty() || name.size() > kMaxNameBytes || std::ranges::any_of(name, is_control)) {
    return invalid_argument(
        fmt::format("An adapter's name must have 1 to {} bytes and no control characters.", kMaxNameBytes),
        "lora_name");
  }
  return {};
}

std::string expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? std::string(home) + path.substr(1) : path;
}

Error unknown_adapter(const std::string& name) {
  return not_found(fmt::format("There is no LoRA adapter '{}'.", name.substr(0, 200)), "model");
}

Error shutting_down() { return {ErrorKind::kUnavailable, "The server is shutting down.", {}}; }

Error too_many() { return {ErrorKind::kUnavailable, "Too many LoRA adapters wait to be loaded; try again.", {}}; }

using Adapter = std::shared_ptr<const LoadedAdapter>;

}  // namespace

struct AdapterCatalog::State : std::enable_shared_from_this<AdapterCatalog::State> {
  State(const Options& given, std::unique_ptr<AdapterMemory> memory)
      : options(given), folder(given.folder), ledger(std::make_shared<AdapterLedger>(std::move(memory))) {}

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

/// Under the mutex. Judged when the call comes and again when the loader has come to it.
Status AdapterCatalog::State::judge_new(const AdapterSpec& spec, bool in_place) const {
  if (closed) return shutting_down();
  QUIRE_RETURN_IF_ERROR(judge_name(spec.name));
  if (spec.path.empty()) return invalid_argument("An adapter needs the path of its folder.", "lora_path");
  if (reserved.contains(spec.name)) {
    return invalid_argument(
        fmt::format("'{}' is the name of the served model: give the adapter another one.", spec.name), "lora_name");
  }
  if (!in_place && entries.contains(spec.name)) {
    return invalid_argument(
        fmt::format(
            "There is a LoRA adapter '{}' already: unload it first, or set load_inplace to replace its weights.",
            spec.name),
        "lora_name");
  }
  return {};
}

/// Under the mutex. The lease's end may let the adapter leave memory, where there are too many.
AdapterLease AdapterCatalog::State::lend(Entry& entry) {
  entry.last_used = ++clock;
  const LoadedAdapter* adapter = entry.adapter.get();
  return {adapter, [state = shared_from_this(), held = entry.adapter](const LoadedAdapter*) mutable {
            held.reset();
            state->trim();
          }};
}

void AdapterCatalog::State::trim() {
  if (!options.max_loaded) return;
  Aftermath after;
  {
    const std::lock_guard lock(mutex);
    trim(after);
  }
  after.run();
}

/// Under the mutex. Without a lease only the entry holds the adapter, and only here can new leases come from it.
void AdapterCatalog::State::trim(Aftermath& after) {
  if (!options.max_loaded || closed) return;
  const auto loaded = [](const auto& entry) { return entry.second.adapter != nullptr; };
  for (int64_t count = std::ranges::count_if(entries, loaded); count > *options.max_loaded; --count) {
    auto oldest = entries.end();
    for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
      if (!loaded(*entry) || entry->second.spec.pinned || entry->second.adapter.use_count() > 1) continue;
      if (oldest == entries.end() || entry->second.last_used < oldest->second.last_used) oldest = entry;
    }
    if (oldest == entries.end()) return;
    spdlog::info("LoRA adapter '{}' leaves memory (--max-cpu-loras {}); its next use reads it again", oldest->first,
                 *options.max_loaded);
    after.dropped.push_back(std::move(oldest->second.adapter));
    oldest->second.adapter = nullptr;
    ++evictions;
    if (oldest->second.from_folder && !oldest->second.loading) entries.erase(oldest);
  }
}

/// Under the mutex: the entry has these weights from now on.
void AdapterCatalog::State::settle(Entry& entry, Adapter adapter, Aftermath& after) {
  if (entry.adapter != nullptr) after.dropped.push_back(std::move(entry.adapter));
  entry.adapter = std::move(adapter);
  entry.last_used = ++clock;
  entry.proven = true;
  for (AdapterReady& ready : entry.waiting) after.answers.emplace_back(std::move(ready), lend(entry));
  entry.waiting.clear();
  entry.loading = false;
}

/// Under the mutex: a use of a known adapter could not load it.
void AdapterCatalog::State::fail(std::map<std::string, Entry>::iterator entry, const Error& error, Aftermath& after) {
  entry->second.loading = false;
  for (AdapterReady& ready : entry->second.waiting) after.answers.emplace_back(std::move(ready), error);
  entry->second.waiting.clear();
  const bool forget = entry->second.from_folder || !entry->second.proven;
  if (forget && entry->second.adapter == nullptr) entries.erase(entry);
}

std::map<std::string, AdapterCatalog::State::Entry>::iterator AdapterCatalog::State::add_unloaded(
    const AdapterSpec& spec, bool from_folder) {
  const auto entry = entries.try_emplace(spec.name).first;
  entry->second.spec = spec;
  entry->second.from_folder = from_folder;
  entry->second.serial = ++clock;
  return entry;
}

/// Answers with the entry's adapter, at once or when it is loaded. Takes the lock, and leaves it.
void AdapterCatalog::State::await(std::unique_lock<std::mutex>& lock, std::map<std::string, Entry>::iterator entry,
                                  AdapterReady ready) {
  Entry& wanted = entry->second;
  if (wanted.adapter != nullptr) {
    AdapterLease lease = lend(wanted);
    lock.unlock();
    return ready(std::move(lease));
  }
  wanted.waiting.push_back(std::move(ready));
  if (std::exchange(wanted.loading, true)) return lock.unlock();
  const bool queued = loader->submit(
      [state = shared_from_this(), name = entry->first, serial = wanted.serial] { state->load_known(name, serial); });
  Aftermath after;
  if (!queued) fail(entry, too_many(), after);
  lock.unlock();
  after.run();
}

/// On the loader's thread.
void AdapterCatalog::State::load_new(const AdapterSpec& spec, bool in_place, const AdapterReady& ready) {
  {
    std::unique_lock lock(mutex);
    if (const Status status = judge_new(spec, in_place); !status.ok()) {
      lock.unlock();
      return ready(status.error());
    }
  }
  Result<Adapter> loaded = ledger->load(spec.name, expand_home(spec.path));
  if (!loaded.ok()) {
    Error error = loaded.error();
    if (error.param.empty()) error.param = "lora_path";
    return ready(error);
  }
  Aftermath after;
  {
    const std::lock_guard lock(mutex);
    Entry& entry = entries[spec.name];
    if (entry.serial == 0) entry.serial = ++clock;
    entry.spec = spec;
    entry.from_folder = false;
    settle(entry, std::move(loaded).value(), after);
    after.answers.emplace_back(ready, lend(entry));
    trim(after);
  }
  after.run();
}

/// On the loader's thread.
void AdapterCatalog::State::load_known(const std::string& name, uint64_t serial) {
  AdapterSpec spec;
  Aftermath after;
  {
    const std::lock_guard lock(mutex);
    const auto entry = entries.find(name);
    if (entry == entries.end() || entry->second.serial != serial || entry->second.adapter != nullptr) return;
    spec = entry->second.spec;
  }
  Result<Adapter> loaded = ledger->load(name, expand_home(spec.path));
  {
    const std::lock_guard lock(mutex);
    const auto entry = entries.find(name);
    const bool wanted = entry != entries.end() && entry->second.serial == serial;
    if (wanted && loaded.ok()) {
      settle(entry->second, std::move(loaded).value(), after);
      trim(after);
    } else if (wanted) {
      fail(entry,
           {loaded.error().kind, fmt::format("LoRA adapter '{}' cannot be loaded: {}", name, loaded.error().message),
            loaded.error().param},
           after);
    }
  }
  after.run();
}

AdapterCatalog::AdapterCatalog(const Options& options, std::unique_ptr<AdapterMemory> memory)
    : state_(std::make_shared<State>(options, std::move(memory))) {}

AdapterCatalog::~AdapterCatalog() { close(); }

void AdapterCatalog::reserve_names(const std::vector<std::string>& names) {
  const std::lock_guard lock(state_->mutex);
  state_->reserved.insert(names.begin(), names.end());
}

void AdapterCatalog::load(const AdapterSpec& spec, bool in_place, AdapterReady ready) {
  Status status;
  {
    const std::lock_guard lock(state_->mutex);
    status = state_->judge_new(spec, in_place);
    if (status.ok()) {
      const bool queued =
          state_->loader->submit([state = state_, spec, in_place, ready] { state->load_new(spec, in_place, ready); });
      if (queued) return;
      status = too_many();
    }
  }
  ready(status.error());
}

void AdapterCatalog::acquire(const std::string& name, AdapterReady ready) {
  std::optional<std::filesystem::path> found;
  std::unique_lock lock(state_->mutex);
  auto entry = state_->entries.find(name);
  if (entry == state_->entries.end() && !state_->closed) {
    lock.unlock();  // the disk may be slow
    found = state_->folder.find(name);
    lock.lock();
    entry = state_->entries.find(name);
  }
  if (state_->closed || (entry == state_->entries.end() && (!found || state_->reserved.contains(name)))) {
    const Error error = state_->closed ? shutting_down() : unknown_adapter(name);
    lock.unlock();
    return ready(error);
  }
  if (entry == state_->entries.end()) entry = state_->add_unloaded({name, found->string(), {}, false}, true);
  state_->await(lock, entry, std::move(ready));
}

void AdapterCatalog::use(const AdapterSpec& spec, AdapterReady ready) {
  std::unique_lock lock(state_->mutex);
  auto entry = state_->entries.find(spec.name);
  Status status;
  if (entry == state_->entries.end() || state_->closed) {
    status = state_->judge_new(spec, false);
  } else if (entry->second.spec.path != spec.path) {
    status = invalid_argument(
        fmt::format("The LoRA adapter '{}' was loaded from {}, not from {}: use another name, or replace its weights.",
                    spec.name, entry->second.spec.path, spec.path),
        "lora_path");
  }
  if (!status.ok()) {
    lock.unlock();
    return ready(status.error());
  }
  if (entry == state_->entries.end()) entry = state_->add_unloaded(spec, false);
  state_->await(lock, entry, std::move(ready));
}

namespace {

/// Calls `start` with a callback and waits for it.
template <typename Start>
Result<AdapterLease> wait_for(Start&& start) {
  const auto answer = std::make_shared<std::promise<Result<AdapterLease>>>();
  std::future<Result<AdapterLease>> future = answer->get_future();
  start([answer](Result<AdapterLease> result) { answer->set_value(std::move(result)); });
  try {
    return future.get();
  } catch (const std::future_error&) {
    return shutting_down();  // the loader dropped the call
  }
}

}  // namespace

Result<AdapterLease> AdapterCatalog::load_and_wait(const AdapterSpec& spec, bool in_place) {
  return wait_for([&](AdapterReady ready) { load(spec, in_place, std::move(ready)); });
}

Result<AdapterLease> AdapterCatalog::use_and_wait(const AdapterSpec& spec) {
  return wait_for([&](AdapterReady ready) { use(spec, std::move(ready)); });
}

Result<std::string> AdapterCatalog::unload(const std::string& name, std::optional<uint64_t> id) {
  State::Aftermath after;
  std::string unloaded;
  {
    const std::lock_guard lock(state_->mutex);
    const auto matches = [&](const auto& entry) {
      const auto& [entry_name, value] = entry;
      if (!name.empty() && entry_name != name) return false;
      return !id || (value.adapter != nullptr && value.adapter->id == *id);
    };
    const auto entry = std::ranges::find_if(state_->entries, matches);
    if (entry == state_->entries.end()) {
      const std::string which = name.empty() ? std::string() : fmt::format(" '{}'", name.substr(0, 200));
      return not_found(id ? fmt::format("There is no LoRA adapter{} with the id {}.", which, *id)
                          : fmt::format("There is no LoRA adapter{}.", which),
                       name.empty() ? "lora_int_id" : "lora_name");
    }
    unloaded = entry->first;
    state_->fail(entry, unknown_adapter(unloaded), after);  // of those who wait for it
    if (const auto left = state_->entries.find(unloaded); left != state_->entries.end()) {
      if (left->second.adapter != nullptr) after.dropped.push_back(std::move(left->second.adapter));
      state_->entries.erase(left);
    }
    ++state_->unloads;
  }
  spdlog::info("LoRA adapter '{}' unloaded; requests under way finish with it", unloaded);
  after.run();
  return unloaded;
}

bool AdapterCatalog::knows(const std::string& name) const { return find(name).has_value(); }

std::optional<AdapterSpec> AdapterCatalog::find(const std::string& name) const {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->reserved.contains(name)) return std::nullopt;
    if (const auto entry = state_->entries.find(name); entry != state_->entries.end()) return entry->second.spec;
  }
  const auto path = state_->folder.find(name);
  if (!path) return std::nullopt;
  return AdapterSpec{name, path->string(), {}, false};
}

std::vector<AdapterListing> AdapterCatalog::list() const {
  std::map<std::string, AdapterListing> rows;
  for (const std::string& name : state_->folder.list()) {
    if (const auto path = state_->folder.find(name)) rows[name].spec = {name, path->string(), {}, false};
  }
  const std::lock_guard lock(state_->mutex);
  for (const std::string& name : state_->reserved) rows.erase(name);
  for (const auto& [name, entry] : state_->entries) {
    AdapterListing& row = rows[name];
    row.spec = entry.spec;
    if (entry.adapter != nullptr) row.id = entry.adapter->id;
  }
  std::vector<AdapterListing> list;
  for (auto& [name, row] : rows) list.push_back(std::move(row));
  return list;
}

CatalogStats AdapterCatalog::stats() const {
  CatalogStats stats;
  stats.loads = state_->ledger->counters();
  const std::lock_guard lock(state_->mutex);
  stats.evictions = state_->evictions;
  stats.unloads = state_->unloads;
  return stats;
}

std::string AdapterCatalog::name_of(uint64_t id) const { return state_->ledger->name_of(id); }

void AdapterCatalog::close() {
  std::unique_ptr<TaskPool> loader;
  {
    const std::lock_guard lock(state_->mutex);
    if (std::exchange(state_->closed, true)) return;
    loader = std::move(state_->loader);
  }
  loader.reset();  // waits for a load under way
  State::Aftermath after;
  {
    const std::lock_guard lock(state_->mutex);
    for (auto& [name, entry] : state_->entries) {
      for (AdapterReady& ready : entry.waiting) after.answers.emplace_back(std::move(ready), shutting_down());
      if (entry.adapter != nullptr) after.dropped.push_back(std::move(entry.adapter));
    }
    state_->entries.clear();
  }
  after.run();
  state_->ledger->close();
}

}  // namespace quire
