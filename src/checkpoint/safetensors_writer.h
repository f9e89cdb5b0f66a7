// Writes safetensors files piece by piece, so that no tensor needs to be in memory as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

/// A tensor that is to be written.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;  ///< as the format names it: "BF16"
  std::vector<int64_t> shape;
  size_t bytes = 0;
};

/// One file. Errors name the path and what the operating system said, such as a full disk.
class SafetensorsWriter {
 public:
  /// Creates the file, which must not exist, and writes its header.
  static Result<SafetensorsWriter> create(const std::filesystem::path& path,
                                          std::span<const SafetensorsTensor> tensors);
  /// The next bytes of the tensors, in their order.
  Status append(std::span<const std::byte> bytes);
  /// Closes the file; every tensor must have got all its bytes.
  Status finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  Status write(const void* data, size_t bytes);

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  size_t expected_ = 0;
  size_t written_ = 0;
};

/// Where each of some tensors is written: the files' names, and for each file the tensors' indices in order.
struct SafetensorsShards {
  std::vector<std::string> names;
  std::vector<std::vector<size_t>> tensors;
  /// The text of <stem>.safetensors.index.json; empty when one file holds all.
  std::string index;
};

/// Fills files up to `max_bytes` each; a tensor that is larger by itself gets a file of its own. One file is
/// <stem>.safetensors, several are <stem>-00001-of-0000N.safetensors.
SafetensorsShards plan_safetensors_shards(std::span<const SafetensorsTensor> tensors, int64_t max_bytes,
                                          const std::string& stem = "model");

}  // namespace quire
