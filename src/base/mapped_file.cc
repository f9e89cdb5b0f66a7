#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace quire {
namespace {

/// Closes the descriptor when the scope ends; a mapping outlives it.
struct Descriptor {
  explicit Descriptor(int value) : value(value) {}
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int value;
};

Error system_error(const std::filesystem::path& path, const char* action) {
  const int code = errno;
  std::string message = std::string(action) + " " + path.string() + ": " + std::strerror(code);
  return code == ENOENT ? not_found(std::move(message)) : invalid_argument(std::move(message));
}

/// Opens a regular file for reading and says how long it is.
Result<size_t> open_regular(const Descriptor& file, const std::filesystem::path& path) {
  if (file.value < 0) return system_error(path, "cannot open");
  struct stat status {};
  if (::fstat(file.value, &status) != 0) return system_error(path, "cannot read the size of");
  if (!S_ISREG(status.st_mode)) return invalid_argument(path.string() + " is not a regular file");
  return static_cast<size_t>(status.st_size);
}

/// O_NONBLOCK: opening a named pipe must fail afterwards, not wait for a writer.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

}  // namespace

Result<MappedFile> MappedFile::copy(const std::filesystem::path& path, size_t most_bytes) {
  const Descriptor file(::open(path.c_str(), kReadFlags));
  MappedFile copied;
  QUIRE_ASSIGN_OR_RETURN(const size_t file_size, open_regular(file, path));
  const size_t size = std::min(file_size, most_bytes);
  copied.path_ = path;
  copied.copied_ = true;
  if (size == 0) return copied;
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return system_error(path, "no memory to read");
  copied.data_ = static_cast<const std::byte*>(data);
  copied.size_ = size;
  for (size_t done = 0; done < size;) {
    const ssize_t count =
        ::pread(file.value, static_cast<std::byte*>(data) + done, size - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(path, "cannot read");
    if (count == 0) return invalid_argument(path.string() + " became shorter while it was read");
    done += static_cast<size_t>(count);
  }
  return copied;
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), kReadFlags));
  MappedFile mapped;
  QUIRE_ASSIGN_OR_RETURN(mapped.size_, open_regular(file, path));
  mapped.path_ = path;
  if (mapped.size_ == 0) return mapped;
  void* data = ::mmap(nullptr, mapped.size_, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (data == MAP_FAILED) {
    mapped.size_ = 0;
    return system_error(path, "cannot map");
  }
  mapped.data_ = static_cast<const std::byte*>(data);
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      copied_(other.copied_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(copied_, other.copied_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::advise_sequential() const {
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_SEQUENTIAL);
}

void MappedFile::release(size_t offset, size_t length) const {
  if (data_ == nullptr || copied_ || offset >= size_) return;
  length = std::min(length, size_ - offset);
  // Rounded outwards: pages shared with a neighbour are read again when it needs them.
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = offset / page * page;
  ::madvise(const_cast<std::byte*>(data_) + begin, offset + length - begin, MADV_DONTNEED);
}

}  // namespace quire
