// The element types of GGUF tensors: their numbers, names and block sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace quire {

/// Types whose values can be read.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

/// One type: `block_bytes` bytes hold `block_size` consecutive elements of a row.
struct GgmlTypeInfo {
  uint32_t number;
  const char* name;
  uint32_t block_size;
  uint32_t block_bytes;
  bool readable;  ///< false: known by name only
};

/// The type of that number, or nullptr for one that no release of the format describes.
const GgmlTypeInfo* find_ggml_type(uint32_t number);

/// "F32, F16, ...": the readable ones, for messages.
std::string readable_ggml_types();

}  // namespace quire
