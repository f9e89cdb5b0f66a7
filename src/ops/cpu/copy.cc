#include <cstring>

#include "ops/cpu/backend.h"

namespace quire::ops::cpu {

void copy_from_host(const void* values, Tensor& out) {
  if (out.size() == 0) return;
  std::memcpy(out.raw(), values, static_cast<size_t>(out.size()) * dtype_size(out.dtype()));
}

void copy_to_host(const Tensor& x, std::span<float> out) {
  const auto cols = static_cast<size_t>(x.cols());
  for (int64_t row = 0; row < x.rows() && cols > 0; ++row) {
    std::memcpy(out.data() + static_cast<size_t>(row) * cols, x.row<float>(row), cols * sizeof(float));
  }
}

void select_rows(const Tensor& x, std::span<const int32_t> rows, Tensor& out) {
  for (size_t i = 0; i < rows.size() && x.cols() > 0; ++i) {
    const float* const source = x.row<float>(rows[i]);
    std::memcpy(out.row<float>(static_cast<int64_t>(i)), source, static_cast<size_t>(x.cols()) * sizeof(float));
  }
}

}  // namespace quire::ops::cpu
