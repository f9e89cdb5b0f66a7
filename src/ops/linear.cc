#include "ops/linear.h"

#include "base/check.h"
#include "ops/checks.h"
#include "ops/cpu/linear.h"
#include "ops/grouped_linear.h"

namespace quire::ops {
namespace {

bool is_storage(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

void check_matrix(const OpContext& context, const PackedMatrix& matrix) {
  QUIRE_CHECK(matrix.out_features > 0 && matrix.in_features > 0);
  QUIRE_CHECK(is_storage(matrix.dtype) && matrix.panels.dtype() == matrix.dtype);
  QUIRE_CHECK(matrix.panels.defined() && matrix.panels.contiguous());
  QUIRE_CHECK(matrix.panels.size() == matrix.panel_count() * matrix.in_features * PackedMatrix::kPanelWidth);
  QUIRE_CHECK(matrix.panels.device() == context.device);
}

void check_activations(const OpContext& context, const Tensor& tensor, int64_t rows, int64_t cols) {
  QUIRE_CHECK(tensor.dtype() == DType::kFloat32 && tensor.device() == context.device);
  QUIRE_CHECK(tensor.rows() == rows && tensor.cols() == cols);
}

}  // namespace

size_t PackedMatrix::bytes(int64_t out_features, int64_t in_features, DType dtype) {
  QUIRE_CHECK(out_features > 0 && in_features > 0 && is_storage(dtype));
  const int64_t panels = (out_features + kPanelWidth - 1) / kPanelWidth;
  return static_cast<size_t>(panels * kPanelWidth) * static_cast<size_t>(in_features) * dtype_size(dtype);
}

PackedMatrix make_packed_matrix(HugePageArena& arena, int64_t out_features, int64_t in_features, DType dtype) {
  PackedMatrix matrix{out_features, in_features, dtype, {}};
  void* const memory = arena.allocate(PackedMatrix::bytes(out_features, in_features, dtype));
  matrix.panels = Tensor::view(memory, matrix.panel_count(), in_features * PackedMatrix::kPanelWidth, dtype);
  return matrix;
}

void pack_rows(OpContext& context, const MatrixView& source, int64_t first_row, int64_t first_col,
               PackedMatrix& matrix) {
  check_matrix(context, matrix);
  QUIRE_CHECK(is_storage(source.dtype) && source.rows >= 0 && source.cols >= 0);
  QUIRE_CHECK(first_row >= 0 && first_row + source.rows <= matrix.out_features);
  QUIRE_CHECK(first_col >= 0 && first_col + source.cols <= matrix.in_features);
  if (source.rows == 0 || source.cols == 0) return;
  QUIRE_CHECK(source.data != nullptr && (source.rows == 1 || source.row_stride >= source.cols));
  switch (context.device.type) {
    case DeviceType::kCpu:
      return cpu::pack_rows(context, source, first_row, first_col, matrix);
  }
}

void zero_padding(OpContext& context, PackedMatrix& matrix) {
  check_matrix(context, matrix);
  switch (context.device.type) {
    case DeviceType::kCpu:
      return cpu::zero_padding(matrix, 0, matrix.in_features);
  }
}

void linear(OpContext& context, const Tensor& x, const PackedMatrix& weight, const Tensor& bias, Tensor& out) {
  linear(context, x, weight, bias, out, {});
}

void linear(OpContext& context, const Tensor& x, const PackedMatrix& weight, const Tensor& bias, Tensor& out,
            std::span<const LinearPart> parts) {
  check_matrix(context, weight);
  check_activations(context, x, x.rows(), weight.in_features);
  check_activations(context, out, x.rows(), weight.out_features);
  if (bias.defined()) check_activations(context, bias, 1, weight.out_features);
  for (const LinearPart& part : parts) check_part(context, part);
  if (x.rows() == 0) return;
  switch (context.device.type) {
    case DeviceType::kCpu:
      return cpu::linear(context, x, weight, bias, out, parts);
  }
}

void gather_rows(OpContext& context, const PackedMatrix& table, const Tensor& ids, Tensor& out) {
  check_matrix(context, table);
  QUIRE_CHECK(ids.dtype() == DType::kInt32 && ids.rows() == 1 && ids.device() == context.device);
  check_activations(context, out, ids.cols(), table.in_features);
  switch (context.device.type) {
    case DeviceType::kCpu:
      return cpu::gather_rows(context, table, ids, out);
  }
}

}  // namespace quire::ops
