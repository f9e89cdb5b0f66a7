// Strict reads of JSON fields.
#include "server/protocol/field_reader.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "server/protocol/json_input.h"

namespace quire {

using Json = nlohmann::ordered_json;

FieldReader::FieldReader(const Json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {}

void FieldReader::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

void FieldReader::fail(std::string_view name, std::string_view expected, const Json& found) {
  fail(invalid_argument(fmt::format("{}{} must be {}, but is {}.", prefix_, name, expected, excerpt(found)),
                        full_name(name)));
}

const Json* FieldReader::find(std::string_view name) {
  known_.emplace(name);
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> FieldReader::boolean(std::string_view name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  fail(name, "true or false", *value);
  return std::nullopt;
}

std::optional<int64_t> FieldReader::integer(std::string_view name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  const bool fits = !value->is_number_unsigned() ||
                    value->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (value->is_number_integer() && fits) return value->get<int64_t>();
  fail(name, "an integer of 64 bits", *value);
  return std::nullopt;
}

std::optional<double> FieldReader::number(std::string_view name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  fail(name, "a number", *value);
  return std::nullopt;
}

std::optional<std::string> FieldReader::string(std::string_view name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  fail(name, "a string", *value);
  return std::nullopt;
}

std::vector<std::string> FieldReader::strings(std::string_view name) {
  const Json* value = find(name);
  if (!value) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> result;
  bool strings_only = value->is_array();
  for (size_t i = 0; strings_only && i < value->size(); ++i) {
    strings_only = (*value)[i].is_string();
    if (strings_only) result.push_back((*value)[i].get<std::string>());
  }
  if (strings_only) return result;
  fail(name, "a string or a list of strings", *value);
  return {};
}

const Json* FieldReader::object(std::string_view name) {
  const Json* value = find(name);
  if (!value || value->is_object()) return value;
  fail(name, "an object", *value);
  return nullptr;
}

Status FieldReader::status() const {
  if (error_) return *error_;
  return {};
}

std::vector<std::string> FieldReader::unknown() const {
  std::vector<std::string> result;
  for (const auto& [name, value] : object_.items()) {
    if (!known_.contains(name)) result.push_back(name);
  }
  return result;
}

Result<std::vector<int32_t>> read_token_ids(const Json& list, std::string_view name, int64_t vocab_size) {
  const std::string param(name);
  if (!list.is_array()) {
    return invalid_argument(fmt::format("{} must be a list of token ids, but is {}.", name, excerpt(list)), param);
  }
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const Json& item : list) {
    if (!item.is_number_integer()) {
      return invalid_argument(fmt::format("{} must hold integers only, but has {}.", name, excerpt(item)), param);
    }
    // An unsigned value beyond int64 reads as negative here, and is refused as such.
    const auto id = item.get<int64_t>();
    if (id < 0 || id >= vocab_size) {
      return invalid_argument(fmt::format("{} has token id {}, which is out of the vocabulary (0 to {}).", name,
                                          excerpt(item), vocab_size - 1),
                              param);
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace quire
