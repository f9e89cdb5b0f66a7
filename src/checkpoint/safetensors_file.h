// One .safetensors file: 8 bytes of header length, a JSON header, then the tensors' bytes.
// The format: github.com/huggingface/safetensors, README. Everything is checked against the real file before use.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"

namespace quire {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< as the file names it: "BF16"
  std::vector<int64_t> shape;
  size_t offset = 0;  ///< from the file's begin
  size_t bytes = 0;
};

/// An opened safetensors file. Safe to read from many threads.
class SafetensorsFile {
 public:
  /// Maps and checks the file: pointer files, web pages, empty, cut short or inconsistent ones are refused by name.
  static Result<SafetensorsFile> open(const std::filesystem::path& path) { return from(MappedFile::open(path)); }
  /// The same from memory, where the file may change once this has returned.
  static Result<SafetensorsFile> copy(const std::filesystem::path& path) { return from(MappedFile::copy(path)); }
  /// The same from bytes that outlive the SafetensorsFile; `description` stands for the path in messages.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, std::string description);

  /// The tensors in the order of their bytes.
  std::span<const SafetensorsEntry> entries() const { return entries_; }
  std::span<const std::byte> data(const SafetensorsEntry& entry) const {
    return bytes_.subspan(entry.offset, entry.bytes);
  }
  void release(const SafetensorsEntry& entry) const { file_.release(entry.offset, entry.bytes); }
  const std::string& description() const { return description_; }

 private:
  static Result<SafetensorsFile> from(Result<MappedFile> opened);

  MappedFile file_;
  std::span<const std::byte> bytes_;
  std::string description_;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace quire
