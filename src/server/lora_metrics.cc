#include "server/lora_metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <set>
#include <vector>

namespace quire {
namespace {

/// Names that one family or label holds.
constexpr size_t kMaxNames = 100;
constexpr const char* kOthers = "(others)";

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Names of the adapters that have such requests, sorted, as a comma list. Two loads of one name are one.
std::string names_with(const AdapterCatalog& adapters, const EngineStats& stats, int64_t AdapterLoad::*requests) {
  std::set<std::string> names;
  for (const AdapterLoad& load : stats.adapters) {
    if (load.*requests == 0) continue;
    if (std::string name = adapters.name_of(load.adapter_id); !name.empty()) names.insert(std::move(name));
    if (names.size() > kMaxNames) {
      names.erase(std::prev(names.end()));
      names.insert(kOthers);
      break;
    }
  }
  return fmt::format("{}", fmt::join(names, ","));
}

}  // namespace

void AdapterRequestCounts::add(const std::string& name, int64_t requests) {
  const bool known = counts_.contains(name) || counts_.size() < kMaxNames;
  counts_[known ? name : kOthers] += requests;
}

void add_lora(Exposition& out, const ServingBackend& backend, const EngineStats& stats,
              const AdapterRequestCounts& requests) {
  const AdapterCatalog* const adapters = backend.adapters();
  if (adapters == nullptr) return;
  const auto cap = backend.max_loras();
  out.info("vllm:lora_requests_info", "Adapters of running and waiting requests; the value is the time.",
           {{"max_lora", cap ? std::to_string(*cap) : "inf"},
            {"running_lora_adapters", names_with(*adapters, stats, &AdapterLoad::running)},
            {"waiting_lora_adapters", names_with(*adapters, stats, &AdapterLoad::waiting)}},
           unix_seconds());
  const CatalogStats catalog = adapters->stats();
  out.gauge("quire:lora_adapters_loaded", "LoRA adapters in memory.", static_cast<double>(catalog.loads.loaded));
  out.gauge("quire:lora_adapter_bytes", "Bytes of their weights.", static_cast<double>(catalog.loads.bytes));
  out.labelled(
      "quire:lora_loads_total", "Loads of LoRA adapters by result.", prometheus::MetricType::Counter, "result",
      {{"success", static_cast<double>(catalog.loads.loads)}, {"error", static_cast<double>(catalog.loads.failures)}});
  out.counter("quire:lora_evictions_total", "Idle LoRA adapters that left memory for others.", catalog.evictions);
  out.counter("quire:lora_unloads_total", "LoRA adapters unloaded on request.", catalog.unloads);
  out.histogram("quire:lora_load_seconds", "Time that loading a LoRA adapter took.", catalog.loads.load_seconds);
  std::vector<std::pair<std::string, double>> rows;
  for (const auto& [name, count] : requests.counts()) rows.emplace_back(name, static_cast<double>(count));
  out.labelled("quire:lora_requests_total", "Requests by LoRA adapter.", prometheus::MetricType::Counter, "lora_name",
               rows);
}

}  // namespace quire
