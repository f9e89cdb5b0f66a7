#include "checkpoint/own_fields.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/json_fields.h"

namespace quire {

using nlohmann::json;

OwnFields::OwnFields(std::string where, std::map<std::string, std::string, std::less<>> json)
    : where_(std::move(where)), json_(std::move(json)) {}

std::string OwnFields::json(std::string_view name) const {
  const auto found = json_.find(name);
  return found == json_.end() ? "null" : found->second;
}

bool OwnFields::has(std::string_view name) const { return json(name) != "null"; }

namespace {

/// Reads one field as config.json's own are read: `get` is told to take `name` from an object that has nothing else.
template <typename T, typename Get>
Result<T> read(const std::string& where, std::string_view name, const std::string& text, Get&& get) {
  json object = json::object();
  object[std::string(name)] = json::parse(text, nullptr, false);
  JsonFields fields(object, where);
  T value = get(fields);
  QUIRE_RETURN_IF_ERROR(fields.status());
  return value;
}

}  // namespace

Result<bool> OwnFields::boolean(std::string_view name, bool fallback) const {
  return read<bool>(where_, name, json(name), [&](JsonFields& fields) { return fields.boolean(name, fallback); });
}

Result<int64_t> OwnFields::integer(std::string_view name, int64_t fallback, int64_t min, int64_t max) const {
  return read<int64_t>(where_, name, json(name),
                       [&](JsonFields& fields) { return fields.integer(name, fallback, min, max); });
}

Result<double> OwnFields::number(std::string_view name, double fallback, double min, double max) const {
  return read<double>(where_, name, json(name),
                      [&](JsonFields& fields) { return fields.number(name, fallback, min, max); });
}

Result<std::string> OwnFields::text(std::string_view name, std::string fallback) const {
  return read<std::string>(where_, name, json(name),
                           [&](JsonFields& fields) { return fields.text(name, std::move(fallback)); });
}

Result<std::vector<int64_t>> OwnFields::integers(std::string_view name, int64_t min, int64_t max) const {
  return read<std::vector<int64_t>>(where_, name, json(name), [&](JsonFields& fields) {
    std::vector<int64_t> values;
    const auto* const list = fields.find(name);
    if (list == nullptr) return values;
    const std::string expected = "a list of integers from " + std::to_string(min) + " to " + std::to_string(max);
    if (!list->is_array()) fields.fail_value(name, expected);
    for (size_t i = 0; list->is_array() && i < list->size(); ++i) {
      const auto& item = (*list)[i];
      if (!item.is_number_integer() || item.get<int64_t>() < min || item.get<int64_t>() > max) {
        fields.fail_value(name, expected);
        break;
      }
      values.push_back(item.get<int64_t>());
    }
    return values;
  });
}

}  // namespace quire
