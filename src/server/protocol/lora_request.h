// The bodies of POST /v1/load_lora_adapter and POST /v1/unload_lora_adapter.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "api/adapter_catalog.h"
#include "base/result.h"

namespace quire {

struct LoadAdapterRequest {
  AdapterSpec spec;
  bool in_place = false;  ///< load_inplace: replaces the weights under that name
};

struct UnloadAdapterRequest {
  std::string name;            ///< may be empty where there is an id
  std::optional<uint64_t> id;  ///< lora_int_id: of one load, as `usage` and /v1/models give it
};

Result<LoadAdapterRequest> parse_load_adapter_request(const nlohmann::ordered_json& body);
Result<UnloadAdapterRequest> parse_unload_adapter_request(const nlohmann::ordered_json& body);

}  // namespace quire
