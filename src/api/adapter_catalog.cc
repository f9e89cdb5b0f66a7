#include "api/adapter_catalog.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>
#include <map>
#include <utility>

#include "api/adapter_catalog_state.h"

namespace quire {

AdapterCatalog::AdapterCatalog(const Options& options, std::unique_ptr<AdapterMemory> memory)
    : state_(std::make_shared<State>(options, std::move(memory))) {}

AdapterCatalog::~AdapterCatalog() { close(); }

void AdapterCatalog::reserve_names(const std::vector<std::string>& names) {
  const std::lock_guard lock(state_->mutex);
  state_->reserved.insert(names.begin(), names.end());
}

namespace {

/// Answers a caller once: at the latest with its own end, when the loader drops what it has not begun.
class PromisedAnswer {
 public:
  explicit PromisedAnswer(AdapterReady ready) : ready_(std::move(ready)) {}
  ~PromisedAnswer() {
    if (ready_) ready_(loader_is_closing());
  }
  PromisedAnswer(const PromisedAnswer&) = delete;
  PromisedAnswer& operator=(const PromisedAnswer&) = delete;

  void give(Result<AdapterLease> result) { std::exchange(ready_, nullptr)(std::move(result)); }

 private:
  AdapterReady ready_;
};

}  // namespace

void AdapterCatalog::load(const AdapterSpec& spec, bool in_place, AdapterReady ready) {
  const auto answer = std::make_shared<PromisedAnswer>(std::move(ready));
  Status status;
  {
    const std::lock_guard lock(state_->mutex);
    status = state_->judge_new(spec, in_place);
    if (status.ok()) {
      const bool queued = state_->loader->submit([state = state_, spec, in_place, answer] {
        state->load_new(spec, in_place, [answer](Result<AdapterLease> result) { answer->give(std::move(result)); });
      });
      if (queued) return;
      status = too_many_loads();
    }
  }
  answer->give(status.error());
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
    const Error error = state_->closed ? loader_is_closing() : unknown_adapter(name);
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
  return future.get();
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
  for (const auto& [name, path] : state_->folder.list()) rows[name].spec = {name, path.string(), {}, false};
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
      for (AdapterReady& ready : entry.waiting) after.answers.emplace_back(std::move(ready), loader_is_closing());
      if (entry.adapter != nullptr) after.dropped.push_back(std::move(entry.adapter));
    }
    state_->entries.clear();
  }
  after.run();
  state_->ledger->close();
}

}  // namespace quire
