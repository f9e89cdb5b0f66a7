// Size arithmetic on numbers that come from files: every step says whether it fits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace quire {

inline std::optional<uint64_t> checked_multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

/// The product of a shape's dimensions, if it fits int64_t. Zero dimensions do not excuse others that are out of range.
inline std::optional<int64_t> checked_elements(std::span<const int64_t> shape) {
  constexpr int64_t kMaxDimension = int64_t{1} << 48;
  int64_t product = 1;
  bool empty = false;
  for (const int64_t dimension : shape) {
    if (dimension < 0 || dimension > kMaxDimension) return std::nullopt;
    if (dimension == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, dimension, &product)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : product;
}

}  // namespace quire
