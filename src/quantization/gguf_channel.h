// Rows of a GGUF file's block formats as channels of compressed weights: the file's own whole numbers and scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "checkpoint/ggml_type.h"
#include "ops/quantized_linear.h"

namespace quire {

/// The format that holds the type's values exactly; none where there is none.
std::optional<ops::QuantFormat> format_of(const GgmlTypeInfo& type);

/// Features [first, first + count) of a row: whole blocks of a type with a format.
ops::QuantizedChannel read_channel(const GgmlTypeInfo& type, const std::byte* row, int64_t first, int64_t count);

}  // namespace quire
