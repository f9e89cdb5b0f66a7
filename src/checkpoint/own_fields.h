// The fields of config.json that one architecture alone knows, for the model that reads them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/api.h"
#include "base/result.h"

namespace quire {

/// Values by field name. A field that is absent or null gives the fallback; one of another kind or out of range is an
/// Error that names the file, the field and what it must be.
class QUIRE_API OwnFields {
 public:
  OwnFields() = default;
  /// `json` holds each field's value as JSON text; `where` begins every message.
  OwnFields(std::string where, std::map<std::string, std::string, std::less<>> json);

  /// Present and not null.
  bool has(std::string_view name) const;

  Result<bool> boolean(std::string_view name, bool fallback) const;
  Result<int64_t> integer(std::string_view name, int64_t fallback, int64_t min, int64_t max) const;
  Result<double> number(std::string_view name, double fallback, double min, double max) const;
  Result<std::string> text(std::string_view name, std::string fallback) const;
  /// A list of integers; absent: empty.
  Result<std::vector<int64_t>> integers(std::string_view name, int64_t min, int64_t max) const;
  /// Whatever the value is, as JSON text; absent: "null".
  std::string json(std::string_view name) const;

 private:
  std::string where_;
  std::map<std::string, std::string, std::less<>> json_;
};

}  // namespace quire
