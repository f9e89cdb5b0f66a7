#include "base/huge_page_arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace quire {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMapping = size_t{64} << 20;  // address space, not memory: untouched pages cost nothing
constexpr size_t kAlignment = 64;

constexpr size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

HugePageArena::~HugePageArena() {
  for (const Mapping& mapping : mappings_) munmap(mapping.address, mapping.size);
}

void* HugePageArena::allocate(size_t bytes) {
  QUIRE_CHECK(bytes <= SIZE_MAX / 2);
  bytes = round_up(bytes == 0 ? 1 : bytes, kAlignment);
  const std::lock_guard lock(mutex_);
  allocated_ += bytes;
  if (bytes > left_) {
    if (bytes > kMapping) return map(round_up(bytes, kHugePage));
    next_ = map(kMapping);
    left_ = kMapping;
  }
  std::byte* const result = next_;
  next_ += bytes;
  left_ -= bytes;
  return result;
}

size_t HugePageArena::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return allocated_;
}

// mmap aligns to 4 KiB only: map one huge page more and give back what lies before and after.
std::byte* HugePageArena::map(size_t bytes) {
  const size_t reserved = bytes + kHugePage;
  void* const address =
      mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    throw StartupError(fmt::format(
        "cannot map {} MiB of memory for weights: {}; use a smaller model or storage type, or raise the memory limit",
        bytes >> 20, std::strerror(errno)));
  }
  const size_t before =
      round_up(reinterpret_cast<uintptr_t>(address), kHugePage) - reinterpret_cast<uintptr_t>(address);
  std::byte* const aligned = static_cast<std::byte*>(address) + before;
  if (before > 0) munmap(address, before);
  munmap(aligned + bytes, kHugePage - before);
  // Refused where huge pages are off: then plain pages do.
  madvise(aligned, bytes, huge_pages_ ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  mappings_.push_back({aligned, bytes});
  return aligned;
}

}  // namespace quire
