// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/api.h"

namespace quire {

enum class DType : uint8_t { kFloat32, kBFloat16, kFloat16, kInt8, kUInt8, kInt32, kInt64 };

/// Bytes of one element.
constexpr size_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kInt8:
    case DType::kUInt8:
      return 1;
    case DType::kInt64:
      return 8;
  }
  return 0;
}

/// The name that flags and logs use: "float32", "bfloat16", ...
constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    case DType::kInt8:
      return "int8";
    case DType::kUInt8:
      return "uint8";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
  }
  return "unknown";
}

/// Parses a float type's name as flags and config.json spell it ("float32", "float", "bfloat16", "float16", "half").
QUIRE_API std::optional<DType> parse_float_dtype(std::string_view name);

}  // namespace quire
