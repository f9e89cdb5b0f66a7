#include "lora/adapter_tensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "checkpoint/printable.h"
#include "tensor/convert.h"

namespace quire {
namespace {

constexpr int64_t kElementsAtOnce = 1 << 16;

/// How many rows to look at together.
int64_t rows_at_once(const WeightInfo& tensor) {
  return std::max<int64_t>(1, kElementsAtOnce / std::max<int64_t>(1, tensor.cols()));
}

template <typename Bits>
bool all_finite(const MatrixView& view, Bits exponent) {
  bool finite = true;
  for (int64_t row = 0; row < view.rows; ++row) {
    const Bits* values = static_cast<const Bits*>(view.data) + row * view.row_stride;
    for (int64_t i = 0; i < view.cols; ++i) finite &= (values[i] & exponent) != exponent;
  }
  return finite;
}

bool all_finite(const MatrixView& view) {
  switch (view.dtype) {
    case DType::kFloat16:
      return all_finite<uint16_t>(view, 0x7c00);
    case DType::kBFloat16:
      return all_finite<uint16_t>(view, 0x7f80);
    default:
      return all_finite<uint32_t>(view, 0x7f800000);
  }
}

}  // namespace

std::string shape_text(const WeightInfo& tensor) {
  std::string text = "[";
  for (const int64_t dimension : tensor.shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dimension);
  }
  return text + "]";
}

Error bad_tensor(const WeightSource& source, const WeightInfo& tensor, const std::string& what) {
  return invalid_argument(source.description() + ": tensor " + quote_name(tensor.name) + " " + what);
}

std::string list_some(const std::vector<std::string>& names) {
  std::string text = names[0];
  for (size_t i = 1; i < std::min<size_t>(names.size(), 3); ++i) text += ", " + names[i];
  if (names.size() > 3) text += " and " + std::to_string(names.size() - 3) + " more";
  return text;
}

Result<bool> same_values(const SourcedTensor& a, const SourcedTensor& b) {
  if (a.info.shape != b.info.shape) return false;
  std::vector<float> scratch_a, scratch_b;
  std::vector<float> row_a(static_cast<size_t>(a.info.cols())), row_b(row_a.size());
  for (int64_t row = 0; row < a.info.rows(); ++row) {
    QUIRE_ASSIGN_OR_RETURN(const MatrixView view_a, a.source.read_rows(a.info, row, 1, scratch_a));
    QUIRE_ASSIGN_OR_RETURN(const MatrixView view_b, b.source.read_rows(b.info, row, 1, scratch_b));
    row_to_float(view_a, 0, row_a.data());
    row_to_float(view_b, 0, row_b.data());
    if (row_a != row_b) return false;
  }
  return true;
}

Result<bool> is_transpose(const SourcedTensor& a, const SourcedTensor& b) {
  const int64_t rows = a.info.rows(), cols = a.info.cols();
  if (b.info.rows() != cols || b.info.cols() != rows) return false;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> values_a, read_floats(a));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> values_b, read_floats(b));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      if (values_a[static_cast<size_t>(row * cols + col)] != values_b[static_cast<size_t>(col * rows + row)]) {
        return false;
      }
    }
  }
  return true;
}

Result<std::vector<float>> read_floats(const SourcedTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.info.rows() * tensor.info.cols()));
  std::vector<float> scratch;
  QUIRE_ASSIGN_OR_RETURN(const MatrixView view, tensor.source.read_rows(tensor.info, 0, tensor.info.rows(), scratch));
  for (int64_t row = 0; row < view.rows; ++row) row_to_float(view, row, values.data() + row * view.cols);
  return values;
}

Status check_range(const WeightSource& source, const WeightInfo& tensor, DType storage) {
  if (storage == DType::kFloat32) return {};
  // The bits of the smallest float32 that rounds to infinity: 65520, and half a step above bfloat16's largest value.
  const uint32_t too_large = storage == DType::kFloat16 ? 0x477ff000 : 0x7f7f8000;
  std::vector<float> scratch, row(static_cast<size_t>(tensor.cols()));
  for (int64_t i = 0; i < tensor.rows(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(const MatrixView view, source.read_rows(tensor, i, 1, scratch));
    if (view.dtype == storage || view.dtype == DType::kFloat16) return {};
    row_to_float(view, 0, row.data());
    bool fits = true;
    for (const float value : row) fits &= (std::bit_cast<uint32_t>(value) & 0x7fffffff) < too_large;
    if (fits) continue;
    return bad_tensor(source, tensor,
                      "has values that " + std::string(dtype_name(storage)) +
                          " cannot hold; choose another storage type with --lora-dtype");
  }
  return {};
}

Status check_tensor(const WeightSource& source, const WeightInfo& tensor) {
  if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) {
    return bad_tensor(source, tensor,
                      "is empty, with shape " + shape_text(tensor) +
                          "; it may be one rank's part of a sharded training run that was not gathered before saving");
  }
  std::vector<float> scratch;
  const int64_t step = rows_at_once(tensor);
  for (int64_t row = 0; row < tensor.rows(); row += step) {
    QUIRE_ASSIGN_OR_RETURN(const MatrixView view,
                           source.read_rows(tensor, row, std::min(step, tensor.rows() - row), scratch));
    if (!all_finite(view)) return bad_tensor(source, tensor, "holds infinities or values that are not numbers");
  }
  return {};
}

}  // namespace quire
