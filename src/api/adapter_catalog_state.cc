// Loading and letting go. Where a comment says "under the mutex", the caller holds State::mutex.
#include "api/adapter_catalog_state.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>

#include "checkpoint/printable.h"

namespace quire {
namespace {

constexpr size_t kMaxNameBytes = 256;

Status judge_name(const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes || has_control_characters(name)) {
    return invalid_argument(
        fmt::format("An adapter's name must have 1 to {} bytes and no control characters.", kMaxNameBytes),
        "lora_name");
  }
  return {};
}

std::string folder_of(const AdapterSpec& spec) {
  const std::string& path = spec.folder.empty() ? spec.path : spec.folder;
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? std::string(home) + path.substr(1) : path;
}

}  // namespace

Error unknown_adapter(const std::string& name) {
  return not_found(fmt::format("There is no LoRA adapter '{}'.", name.substr(0, 200)), "model");
}

Error loader_is_closing() { return {ErrorKind::kUnavailable, "The server is shutting down.", {}}; }

Error too_many_loads() { return {ErrorKind::kUnavailable, "Too many LoRA adapters wait to be loaded; try again.", {}}; }

/// Under the mutex. Judged when the call comes and again when the loader has come to it.
Status AdapterCatalog::State::judge_new(const AdapterSpec& spec, bool in_place) const {
  if (closed) return loader_is_closing();
  QUIRE_RETURN_IF_ERROR(judge_name(spec.name));
  if (spec.path.empty() || has_control_characters(spec.path)) {
    return invalid_argument("An adapter needs the path of its folder, without control characters.", "lora_path");
  }
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
  if (!queued) fail(entry, too_many_loads(), after);
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
  Result<Adapter> loaded = ledger->load(spec.name, folder_of(spec));
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
  Result<Adapter> loaded = ledger->load(name, folder_of(spec));
  {
    const std::lock_guard lock(mutex);
    const auto entry = entries.find(name);
    const bool wanted = entry != entries.end() && entry->second.serial == serial;
    if (wanted && loaded.ok()) {
      settle(entry->second, std::move(loaded).value(), after);
      trim(after);
    } else if (wanted) {
      const Error error{loaded.error().kind,
                        fmt::format("LoRA adapter '{}' cannot be loaded: {}", name, loaded.error().message),
                        loaded.error().param};
      spdlog::warn("{}", error.message);
      fail(entry, error, after);
    }
  }
  after.run();
}

}  // namespace quire
