// A file in memory: mapped read-only, so that weights are read from the page cache without a copy, or copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace quire {

/// Owns the mapping. Moving it keeps the bytes where they are. A file must not be shortened by another program while it
/// is mapped (the operating system would end the process at the next read); a copy does not care.
class MappedFile {
 public:
  /// Maps the whole file; an empty file gives no bytes. Errors name the path: missing, unreadable, not a regular file.
  static Result<MappedFile> open(const std::filesystem::path& path);
  /// The same with the file's bytes, at most its first `most_bytes`, copied into memory: for files that others may
  /// rewrite while the program runs.
  static Result<MappedFile> copy(const std::filesystem::path& path, size_t most_bytes = SIZE_MAX);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  size_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

  /// Tells the kernel to read ahead: the file will be read from front to back.
  void advise_sequential() const;
  /// Lets the pages that hold [offset, offset + length) leave this process; reading them again is safe and brings them
  /// back. A copy stays whole.
  void release(size_t offset, size_t length) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  bool copied_ = false;
};

}  // namespace quire
