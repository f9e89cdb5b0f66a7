// Memory that a collective reads or writes: rows of bytes, so that a part of a larger matrix needs no copy of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace quire {

/// `rows` runs of `row_bytes` bytes, `stride_bytes` apart. The bytes count in that order, from 0 to bytes().
template <typename Byte>
struct BasicBlock {
  Byte* data = nullptr;
  int64_t rows = 0;
  int64_t row_bytes = 0;
  int64_t stride_bytes = 0;

  int64_t bytes() const { return rows * row_bytes; }

  /// Calls fn(Byte* run, int64_t done, int64_t count) for the adjacent pieces of bytes [begin, begin + length); `done`
  /// of them came before.
  template <typename Function>
  void for_each_run(int64_t begin, int64_t length, Function&& fn) const {
    for (int64_t done = 0; done < length;) {
      const int64_t row = (begin + done) / row_bytes;
      const int64_t in_row = (begin + done) % row_bytes;
      const int64_t count = std::min(length - done, row_bytes - in_row);
      fn(data + row * stride_bytes + in_row, done, count);
      done += count;
    }
  }
};
using Block = BasicBlock<std::byte>;
using ConstBlock = BasicBlock<const std::byte>;

inline ConstBlock read_only(const Block& block) {
  return {block.data, block.rows, block.row_bytes, block.stride_bytes};
}

/// Adjacent bytes.
inline Block block_of(void* data, int64_t bytes) { return {static_cast<std::byte*>(data), 1, bytes, bytes}; }
inline ConstBlock block_of(const void* data, int64_t bytes) {
  return {static_cast<const std::byte*>(data), 1, bytes, bytes};
}

/// Bytes [begin, begin + length) of `block` to adjacent memory.
inline void copy_out(const ConstBlock& block, int64_t begin, int64_t length, std::byte* to) {
  block.for_each_run(begin, length, [&](const std::byte* run, int64_t done, int64_t count) {
    std::memcpy(to + done, run, static_cast<size_t>(count));
  });
}

/// Adjacent memory to bytes [begin, begin + length) of `block`.
inline void copy_in(const std::byte* from, const Block& block, int64_t begin, int64_t length) {
  block.for_each_run(begin, length, [&](std::byte* run, int64_t done, int64_t count) {
    std::memcpy(run, from + done, static_cast<size_t>(count));
  });
}

/// Blocks of as many bytes, of whatever rows; nothing where they are the same memory.
inline void copy_block(const ConstBlock& from, const Block& to) {
  if (from.data == to.data && from.rows == to.rows && from.stride_bytes == to.stride_bytes) return;
  to.for_each_run(0, to.bytes(),
                  [&](std::byte* run, int64_t done, int64_t count) { copy_out(from, done, count, run); });
}

}  // namespace quire
