#include "server/protocol/lora_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "server/protocol/field_reader.h"

namespace quire {
namespace {

void log_unknown(const FieldReader& fields) {
  if (const auto unknown = fields.unknown(); !unknown.empty()) {
    spdlog::debug("Ignored unknown request fields: {}", fmt::join(unknown, ", "));
  }
}

}  // namespace

Result<LoadAdapterRequest> parse_load_adapter_request(const nlohmann::ordered_json& body) {
  FieldReader fields(body);
  LoadAdapterRequest request;
  request.spec.name = fields.string("lora_name").value_or("");
  request.spec.path = fields.string("lora_path").value_or("");
  request.in_place = fields.boolean("load_inplace").value_or(false);
  request.spec.pinned = fields.boolean("pinned").value_or(false);
  request.spec.base_model_name = fields.string("base_model_name").value_or("");
  if (fields.boolean("is_3d_lora_weight").value_or(false)) {
    fields.fail(unsupported("is_3d_lora_weight is not supported: leave it out or send false.", "is_3d_lora_weight"));
  }
  for (const auto& [name, value] : {std::pair("lora_name", &request.spec.name), {"lora_path", &request.spec.path}}) {
    if (value->empty()) {
      fields.fail(invalid_argument(fmt::format("{} must be a string that is not empty; the request needs lora_name and "
                                               "lora_path.",
                                               name),
                                   name));
    }
  }
  QUIRE_RETURN_IF_ERROR(fields.status());
  log_unknown(fields);
  return request;
}

Result<UnloadAdapterRequest> parse_unload_adapter_request(const nlohmann::ordered_json& body) {
  FieldReader fields(body);
  UnloadAdapterRequest request;
  request.name = fields.string("lora_name").value_or("");
  if (const auto id = fields.integer("lora_int_id")) {
    if (*id < 1)
      fields.fail(invalid_argument(fmt::format("lora_int_id must be 1 or more, but is {}.", *id), "lora_int_id"));
    request.id = static_cast<uint64_t>(*id);
  }
  if (request.name.empty() && !request.id) {
    fields.fail(invalid_argument("lora_name or lora_int_id must say which adapter to unload.", "lora_name"));
  }
  QUIRE_RETURN_IF_ERROR(fields.status());
  log_unknown(fields);
  return request;
}

}  // namespace quire
