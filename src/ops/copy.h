// Explicit copies between host and device, and between rows.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// Host values to a device tensor of the same size.
QUIRE_API void copy_from_host(OpContext& context, std::span<const int32_t> values, Tensor& out);
QUIRE_API void copy_from_host(OpContext& context, std::span<const int64_t> values, Tensor& out);
QUIRE_API void copy_from_host(OpContext& context, std::span<const float> values, Tensor& out);
/// Device float32 tensor to host.
QUIRE_API void copy_to_host(OpContext& context, const Tensor& x, std::span<float> out);
/// out[i] = x[rows[i]]; float32.
QUIRE_API void select_rows(OpContext& context, const Tensor& x, std::span<const int32_t> rows, Tensor& out);

}  // namespace quire::ops
