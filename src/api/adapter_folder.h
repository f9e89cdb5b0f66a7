// The folder of --lora-dir: each of its sub-folders is an adapter of that name.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"

namespace quire {

/// Reads the disk with each call, so that folders that come and go are seen. Thread-safe.
class AdapterFolder {
 public:
  /// An empty path: no folder, nothing is ever found.
  explicit AdapterFolder(std::filesystem::path root) : root_(std::move(root)) {}

  /// An Error when it is not a folder that can be read.
  Status judge() const;
  /// The adapter's folder. None for names that could lead elsewhere ('/', '\', NUL, a leading '.', ".."), for links
  /// that leave the folder, also among its files, and for what is no adapter (no adapter_config.json).
  std::optional<std::filesystem::path> find(const std::string& name) const;
  /// All that find() finds, by name; at most 10,000.
  std::map<std::string, std::filesystem::path> list() const;

 private:
  std::filesystem::path root_;
};

}  // namespace quire
