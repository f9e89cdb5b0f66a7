#include "ops/quantized_linear.h"

#include "base/check.h"
#include "ops/checks.h"
#include "ops/cpu/kernels/quantized.h"
#include "ops/cpu/quantized_linear.h"

namespace quire::ops {

size_t QuantizedMatrix::bytes(int64_t out_features, int64_t in_features, QuantFormat format) {
  QUIRE_CHECK(out_features > 0 && in_features > 0 && in_features <= kMostFeatures);
  return static_cast<size_t>((out_features + kPanelWidth - 1) / kPanelWidth) *
         static_cast<size_t>(cpu::quant_panel_bytes(format, in_features));
}

QuantizedMatrix make_quantized_matrix(OpContext& context, HugePageArena& arena, int64_t out_features,
                                      int64_t in_features, QuantFormat format) {
  QuantizedMatrix matrix{out_features, in_features, format, {}};
  const size_t bytes = QuantizedMatrix::bytes(out_features, in_features, format);
  matrix.panels = Tensor::view(arena.allocate(bytes), matrix.panel_count(),
                               static_cast<int64_t>(bytes) / matrix.panel_count(), DType::kUInt8, context.device);
  return matrix;
}

void quantized_linear(OpContext& context, const Tensor& x, std::span<const QuantizedPart> parts, const Tensor& bias,
                      Tensor& out, std::span<const LinearPart> additions) {
  QUIRE_CHECK(!parts.empty());
  QUIRE_CHECK(x.dtype() == DType::kFloat32 && out.dtype() == DType::kFloat32 && out.rows() == x.rows());
  QUIRE_CHECK(!bias.defined() || (bias.dtype() == DType::kFloat32 && bias.rows() == 1 && bias.cols() == out.cols()));
  const bool group_scales = cpu::scales_groups(parts[0].matrix->format);
  for (const QuantizedPart& part : parts) {
    QUIRE_CHECK(part.matrix->in_features == x.cols());
    QUIRE_CHECK(part.first_column >= 0 && part.first_column + part.matrix->out_features <= out.cols());
    QUIRE_CHECK(cpu::scales_groups(part.matrix->format) == group_scales);
  }
  for (const LinearPart& addition : additions) check_part(context, addition);
  if (x.rows() == 0) return;
  switch (context.device.type) {
    case DeviceType::kCpu:
      return cpu::quantized_linear(context, x, parts, bias, out, additions);
  }
}

void gather_channels(OpContext& context, std::span<const QuantizedPart> parts, const Tensor& ids, Tensor& out) {
  QUIRE_CHECK(ids.dtype() == DType::kInt32 && ids.rows() == 1);
  QUIRE_CHECK(out.dtype() == DType::kFloat32 && out.rows() == ids.cols());
  for (const QuantizedPart& part : parts) QUIRE_CHECK(part.matrix->in_features == out.cols());
  switch (context.device.type) {
    case DeviceType::kCpu:
      return cpu::gather_channels(context, parts, ids, out);
  }
}

}  // namespace quire::ops
