#include "checkpoint/json_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/printable.h"

namespace quire {
namespace {

constexpr int64_t kMaxTokenId = INT32_MAX;

std::string shown(const nlohmann::json& value) {
  return quote_name(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), 60);
}

/// Integers, and floats that are whole (1e4, 8192.0).
std::optional<int64_t> whole_number(const nlohmann::json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return number <= INT64_MAX ? std::optional<int64_t>(static_cast<int64_t>(number)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (!(std::abs(number) < 9e15) || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

JsonFields::JsonFields(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {}

bool JsonFields::has(std::string_view key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

const nlohmann::json* JsonFields::find(std::string_view key) {
  mark_read(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> JsonFields::optional_integer(std::string_view key, int64_t min, int64_t max) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = whole_number(*value);
  if (number && *number >= min && *number <= max) return number;
  fail_value(key, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
  return std::nullopt;
}

int64_t JsonFields::integer(std::string_view key, int64_t fallback, int64_t min, int64_t max) {
  return optional_integer(key, min, max).value_or(fallback);
}

std::optional<double> JsonFields::optional_number(std::string_view key, double min, double max) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const double number = value->get<double>();
    if (number >= min && number <= max) return number;
  }
  char range[64];
  std::snprintf(range, sizeof(range), "a number from %g to %g", min, max);
  fail_value(key, range);
  return std::nullopt;
}

double JsonFields::number(std::string_view key, double fallback, double min, double max) {
  return optional_number(key, min, max).value_or(fallback);
}

bool JsonFields::boolean(std::string_view key, bool fallback) {
  const auto* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  fail_value(key, "true or false");
  return fallback;
}

std::string JsonFields::text(std::string_view key, std::string fallback) {
  const auto* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  fail_value(key, "a string");
  return fallback;
}

std::vector<int32_t> JsonFields::token_ids(std::string_view key) {
  const auto* value = find(key);
  std::vector<int32_t> ids;
  if (value == nullptr) return ids;
  const auto add = [&](const nlohmann::json& item) {
    const auto id = whole_number(item);
    if (!id || *id > kMaxTokenId) return fail_value(key, "a token id or a list of token ids");
    if (*id >= 0) ids.push_back(static_cast<int32_t>(*id));
  };
  if (value->is_array()) {
    for (const auto& item : *value) add(item);
  } else {
    add(*value);
  }
  return ids;
}

void JsonFields::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

void JsonFields::fail_value(std::string_view key, const std::string& expected) {
  const auto found = object_.find(key);
  const std::string value = found == object_.end() ? "absent" : shown(*found);
  fail(invalid_argument(where_ + ": " + std::string(key) + " must be " + expected + ", it is " + value,
                        std::string(key)));
}

Status JsonFields::status() const {
  if (error_) return *error_;
  return {};
}

std::vector<std::string> JsonFields::unread_keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items()) {
    if (!read_.contains(key)) keys.push_back(key);
  }
  return keys;
}

}  // namespace quire
