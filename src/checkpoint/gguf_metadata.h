// Typed, range-checked reading of a GGUF file's metadata below one prefix ("llama."), as JsonFields is for config.json.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/gguf_file.h"

namespace quire {

/// Remembers the first mistake and which keys were read. After a mistake every getter still gives some value; ask
/// status() before using any. The file must outlive it.
class GgufMetadata {
 public:
  GgufMetadata(const GgufFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  std::optional<int64_t> integer(const std::string& key, int64_t min, int64_t max);
  /// An integer from 1 to `max` that must be there.
  int64_t required(const std::string& key, int64_t max);
  std::optional<double> number(const std::string& key, double min, double max);
  /// A value of any of GgufFile::find()'s types.
  template <typename T>
  std::optional<T> find(const std::string& key) {
    read_.insert(key);
    auto value = file_.find<T>(prefix_ + key);
    if (value.ok()) return *std::move(value);
    fail(value.error());
    return std::nullopt;
  }

  /// Notes a mistake; the first one is kept.
  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }
  /// As fail(), for a key that quire does not support: "<file>: <prefix><key> <why>".
  void refuse(const std::string& key, const std::string& why);
  Status status() const;

  /// The keys below the prefix, without it, that no getter has read.
  std::vector<std::string> unread_keys() const;
  /// Whether the key's value is the number `neutral` (for a truth value: 0 or 1), or an empty list or string.
  bool is_neutral(const std::string& key, double neutral) const;
  const std::string& prefix() const { return prefix_; }
  const GgufFile& file() const { return file_; }

 private:
  const GgufFile& file_;
  const std::string prefix_;
  std::set<std::string> read_;
  std::optional<Error> error_;
};

/// Judges the keys below an architecture's prefix that no getter has read: those that change what the model computes
/// are refused unless they have the value that does not, those without effect pass, and the names of all others are
/// returned for a warning.
std::vector<std::string> judge_other_metadata(GgufMetadata& metadata);

}  // namespace quire
