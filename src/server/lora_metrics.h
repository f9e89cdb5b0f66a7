// What /metrics tells of adapters: vLLM's lora_requests_info, and quire's own.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "server/exposition.h"
#include "server/serving_backend.h"

namespace quire {

/// Requests by adapter, for a bounded number of names: those that come beyond are counted together.
class AdapterRequestCounts {
 public:
  void add(const std::string& name, int64_t requests);
  const std::map<std::string, int64_t>& counts() const { return counts_; }

 private:
  std::map<std::string, int64_t> counts_;
};

/// Adds nothing where the backend offers no adapters.
void add_lora(Exposition& out, const ServingBackend& backend, const EngineStats& stats,
              const AdapterRequestCounts& requests);

}  // namespace quire
