// A file mapped read-only into memory, so that weights are read from the page cache without a copy.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace quire {

/// Owns the mapping. Moving it keeps the bytes where they are. The file must not be shortened by another program while
/// it is mapped: the operating system would end the process at the next read.
class MappedFile {
 public:
  /// Maps the whole file; an empty file gives no bytes. Errors name the path: missing, unreadable, not a regular file.
  static Result<MappedFile> open(const std::filesystem::path& path);

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
  /// back.
  void release(size_t offset, size_t length) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace quire
