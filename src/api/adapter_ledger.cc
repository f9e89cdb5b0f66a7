#include "api/adapter_ledger.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

namespace quire {

Result<std::shared_ptr<const LoadedAdapter>> AdapterLedger::load(const std::string& name, const std::string& path) {
  uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = ++last_id_;
  }
  const auto begin = std::chrono::steady_clock::now();
  // The catalog closes only after its loader has stopped: the memory is there.
  Result<AdapterSummary> summary = memory_->load(id, path);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  book(seconds, summary, id, name);
  if (!summary.ok()) return summary.error();
  spdlog::info("LoRA adapter '{}' loaded from {} as {}: rank {}, {} modules, {:.1f} MB, {:.0f} ms", name, path, id,
               summary->max_rank, summary->modules, static_cast<double>(summary->bytes) / 1e6, seconds * 1e3);
  auto adapter = std::make_unique<LoadedAdapter>(LoadedAdapter{id, name, path, *summary});
  return std::shared_ptr<const LoadedAdapter>(adapter.release(),
                                              [self = shared_from_this()](const LoadedAdapter* done) {
                                                self->remove(*done);
                                                delete done;
                                              });
}

void AdapterLedger::book(double seconds, const Result<AdapterSummary>& summary, uint64_t id, const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (!summary.ok()) {
    ++counters_.failures;
    return;
  }
  ++counters_.loads;
  ++counters_.loaded;
  counters_.bytes += summary->bytes;
  counters_.load_seconds.observe(seconds);
  names_[id] = name;
}

void AdapterLedger::remove(const LoadedAdapter& adapter) {
  {
    const std::lock_guard lock(memory_mutex_);
    if (memory_ != nullptr) memory_->remove(adapter.id);
  }
  const std::lock_guard lock(mutex_);
  --counters_.loaded;
  counters_.bytes -= adapter.summary.bytes;
  names_.erase(adapter.id);
}

void AdapterLedger::close() {
  const std::lock_guard lock(memory_mutex_);
  memory_.reset();
}

LoadCounters AdapterLedger::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

std::string AdapterLedger::name_of(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(id);
  return found == names_.end() ? std::string() : found->second;
}

}  // namespace quire
