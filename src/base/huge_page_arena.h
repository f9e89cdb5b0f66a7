// Memory for weights: huge pages, filled from the bottom, freed all at once.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "base/api.h"

namespace quire {

/// A bump allocator over 2 MiB-aligned anonymous mappings for which the kernel is asked for huge pages, so that
/// streaming through weights misses the TLB rarely and small matrices share pages. Pages take memory when they are
/// first written. Memory is zero at first and lives as long as the arena. Safe to call from several threads.
class QUIRE_API HugePageArena {
 public:
  /// Without huge pages memory is taken in small ones: for weights of less than a few huge pages.
  explicit HugePageArena(bool huge_pages = true) : huge_pages_(huge_pages) {}
  ~HugePageArena();
  HugePageArena(const HugePageArena&) = delete;
  HugePageArena& operator=(const HugePageArena&) = delete;

  /// 64-byte aligned; throws StartupError when the system refuses the memory.
  void* allocate(size_t bytes);

  /// Bytes handed out so far.
  size_t allocated_bytes() const;

 private:
  struct Mapping {
    void* address;
    size_t size;
  };
  std::byte* map(size_t bytes);

  bool huge_pages_;
  mutable std::mutex mutex_;
  std::vector<Mapping> mappings_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
  size_t allocated_ = 0;
};

}  // namespace quire
