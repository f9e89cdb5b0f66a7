// Typed, range-checked reading of a JSON object's fields that remembers the first mistake and which keys were read.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

/// Absent and null fields give the default. After the first mistake every getter still gives some value; ask status()
/// before using any. The object must outlive its JsonFields.
class JsonFields {
 public:
  /// `where` begins every message: a path, or a path and the outer key.
  JsonFields(const nlohmann::json& object, std::string where);

  bool has(std::string_view key) const;  ///< present and not null
  /// The value, or nullptr when absent or null; marks the key as read.
  const nlohmann::json* find(std::string_view key);

  std::optional<int64_t> optional_integer(std::string_view key, int64_t min, int64_t max);
  int64_t integer(std::string_view key, int64_t fallback, int64_t min, int64_t max);
  std::optional<double> optional_number(std::string_view key, double min, double max);
  double number(std::string_view key, double fallback, double min, double max);
  bool boolean(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::string fallback);
  /// One token id or a list of them; negative ids mean none.
  std::vector<int32_t> token_ids(std::string_view key);

  /// Notes a mistake; the first one is kept.
  void fail(Error error);
  /// As fail(), for a field whose value is not possible: "<where>: <key> must be <expected>, it is <value>".
  void fail_value(std::string_view key, const std::string& expected);
  Status status() const;

  void mark_read(std::string_view key) { read_.insert(std::string(key)); }
  std::vector<std::string> unread_keys() const;
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string, std::less<>> read_;
  std::optional<Error> error_;
};

}  // namespace quire
