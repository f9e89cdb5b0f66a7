// GGUF's block formats -> float32. The formats: github.com/ggml-org/ggml, src/ggml-common.h and ggml-quants.c.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/ggml_type.h"

namespace quire {

/// Widens `count` elements (whole blocks) stored as `type` at `data` into `out`. `data` needs no alignment; `type` must
/// be readable.
void gguf_dequantize(const GgmlTypeInfo& type, const std::byte* data, int64_t count, float* out);

}  // namespace quire
