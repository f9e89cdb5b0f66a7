// A request body's text to a JSON value, judged before anything is built from it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.h"

namespace quire {

/// Bounds on a body's shape; its size is bounded by HttpLimits.
struct JsonLimits {
  size_t max_depth = 128;            ///< arrays and objects inside one another
  size_t max_keys_per_object = 512;  ///< ordered objects are searched linearly
};

/// Parses a body that must be one JSON object. Refuses invalid UTF-8, NaN and Infinity, numbers beyond double, trailing
/// text, and shapes beyond the limits; of duplicate keys the last counts. The sentence says what and where.
Result<nlohmann::ordered_json> parse_json_object(std::string_view body, const JsonLimits& limits = {});

/// Compact JSON text with invalid UTF-8 replaced by U+FFFD and numbers that are not finite written as null: always
/// valid JSON.
std::string to_wire(const nlohmann::ordered_json& value);

/// The first `bytes` bytes of a value's JSON text, for messages.
std::string excerpt(const nlohmann::ordered_json& value, size_t bytes = 60);

}  // namespace quire
