// GET /v1/models and GET /v1/models/NAME.
#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>

#include "server/model_choice.h"
#include "server/protocol/json_input.h"
#include "server/response/error_response.h"
#include "server/routes/routes.h"

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

Json permission(const ServerContext& context, const std::string& name) {
  return {{"id", "modelperm-" + name},
          {"object", "model_permission"},
          {"created", context.started},
          {"allow_create_engine", false},
          {"allow_sampling", true},
          {"allow_logprobs", true},
          {"allow_search_indices", false},
          {"allow_view", true},
          {"allow_fine_tuning", false},
          {"organization", "*"},
          {"group", nullptr},
          {"is_blocking", false}};
}

Json model_json(const ServerContext& context, const std::string& name, const std::string& root, Json parent) {
  Json model = {{"id", name},
                {"object", "model"},
                {"created", context.started},
                {"owned_by", "quire"},
                {"root", root},
                {"parent", std::move(parent)},
                {"max_model_len", context.backend.limits().max_model_len},
                {"vocab_size", context.backend.rules().vocab_size}};
  model["permission"] = Json::array();
  model["permission"].push_back(permission(context, name));
  return model;
}

Json base_json(const ServerContext& context, const std::string& name) {
  return model_json(context, name, context.backend.model_root(), nullptr);
}

Json adapter_json(const ServerContext& context, const AdapterSpec& spec) {
  const std::string& base = spec.base_model_name;
  return model_json(context, spec.name, spec.path, base.empty() ? context.model_names.front() : base);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const int lower = std::tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// Names may hold slashes, which clients send as %2F.
std::string percent_decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low < 0) {
      result += text[i];
      continue;
    }
    result += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return result;
}

void send_json(const Json& json, const std::shared_ptr<ResponseWriter>& writer) {
  HttpResponse response;
  response.body = to_wire(json);
  writer->send(std::move(response));
}

}  // namespace

void serve_models(ServerContext& context, const HttpRequest&, const std::shared_ptr<ResponseWriter>& writer) {
  Json data = Json::array();
  for (const std::string& name : context.model_names) data.push_back(base_json(context, name));
  if (const AdapterCatalog* adapters = context.backend.adapters()) {
    for (const AdapterListing& row : adapters->list()) {
      Json model = adapter_json(context, row.spec);
      model["lora_int_id"] = row.id ? Json(*row.id) : Json(nullptr);
      data.push_back(std::move(model));
    }
  }
  send_json({{"object", "list"}, {"data", std::move(data)}}, writer);
}

void serve_model(ServerContext& context, const HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer) {
  constexpr std::string_view kPrefix = "/v1/models/";
  const auto name = resolve_model(context, percent_decoded(std::string_view(request.path).substr(kPrefix.size())));
  if (!name.ok()) return writer->send(error_response(name.error()));
  const AdapterCatalog* const adapters = context.backend.adapters();
  const auto spec = adapters != nullptr ? adapters->find(*name) : std::nullopt;
  send_json(spec ? adapter_json(context, *spec) : base_json(context, *name), writer);
}

}  // namespace quire
