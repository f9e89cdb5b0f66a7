// What a method's weights were stored as, for the log.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace quire {

/// Bytes by form. Safe to call from several threads.
class WeightTally {
 public:
  void add(const std::string& form, size_t bytes);
  /// "Q4_1 66.4 MB, bfloat16 56.6 MB"; empty where nothing was added.
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, size_t> bytes_;
};

}  // namespace quire
