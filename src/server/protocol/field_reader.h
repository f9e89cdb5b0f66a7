// Reads a request object field by field, strictly typed, and keeps the first mistake.
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

/// Absent and null are the same: nothing. `true` is no number, "0.7" is no number, 1.0 is no integer. After a mistake
/// all reads still return (nothing), so that a parser reads straight through and asks status() once.
class FieldReader {
 public:
  /// `prefix` names the object in errors ("stream_options."). The object must outlive the reader.
  explicit FieldReader(const nlohmann::ordered_json& object, std::string prefix = {});

  const nlohmann::ordered_json* find(std::string_view name);
  std::optional<bool> boolean(std::string_view name);
  std::optional<int64_t> integer(std::string_view name);
  std::optional<double> number(std::string_view name);
  std::optional<std::string> string(std::string_view name);
  /// A string or a list of strings.
  std::vector<std::string> strings(std::string_view name);
  const nlohmann::ordered_json* object(std::string_view name);

  /// Marks a field as known without reading it.
  void ignore(std::string_view name) { known_.emplace(name); }
  /// Keeps the error if it is the first.
  void fail(Error error);
  void fail(std::string_view name, std::string_view expected, const nlohmann::ordered_json& found);

  Status status() const;
  /// The object's keys that nobody asked for.
  std::vector<std::string> unknown() const;
  std::string full_name(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  const nlohmann::ordered_json& object_;
  std::string prefix_;
  std::set<std::string, std::less<>> known_;
  std::optional<Error> error_;
};

/// Reads a list of token ids in [0, vocab_size). `name` is the field's, for the error.
Result<std::vector<int32_t>> read_token_ids(const nlohmann::ordered_json& list, std::string_view name,
                                            int64_t vocab_size);

}  // namespace quire
