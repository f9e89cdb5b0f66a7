#include "tensor/tensor.h"

#include <cstdlib>
#include <new>

namespace quire {

namespace {
constexpr size_t kAlignment = 64;
}

Tensor Tensor::empty(int64_t rows, int64_t cols, DType dtype, Device device) {
  QUIRE_CHECK(rows >= 0 && cols >= 0);
  const size_t bytes = static_cast<size_t>(rows) * static_cast<size_t>(cols) * dtype_size(dtype);
  const size_t padded = (bytes + kAlignment) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, padded);
  if (memory == nullptr) throw std::bad_alloc();
  Tensor tensor = view(memory, rows, cols, dtype, device);
  tensor.owner_ = std::shared_ptr<void>(memory, std::free);
  return tensor;
}

Tensor Tensor::view(void* data, int64_t rows, int64_t cols, DType dtype, Device device, int64_t row_stride) {
  Tensor tensor;
  tensor.data_ = data;
  tensor.rows_ = rows;
  tensor.cols_ = cols;
  tensor.row_stride_ = row_stride == 0 ? cols : row_stride;
  tensor.dtype_ = dtype;
  tensor.device_ = device;
  return tensor;
}

Tensor Tensor::slice_rows(int64_t begin, int64_t count) const {
  QUIRE_CHECK(begin >= 0 && count >= 0 && begin + count <= rows_);
  Tensor slice = *this;
  slice.data_ = static_cast<char*>(data_) + static_cast<size_t>(begin * row_stride_) * dtype_size(dtype_);
  slice.rows_ = count;
  return slice;
}

Tensor Tensor::slice_cols(int64_t begin, int64_t count) const {
  QUIRE_CHECK(begin >= 0 && count >= 0 && begin + count <= cols_);
  Tensor slice = *this;
  slice.data_ = static_cast<char*>(data_) + static_cast<size_t>(begin) * dtype_size(dtype_);
  slice.cols_ = count;
  return slice;
}

Tensor Tensor::reshape(int64_t rows, int64_t cols) const {
  QUIRE_CHECK(contiguous() && rows * cols == size());
  Tensor shaped = *this;
  shaped.rows_ = rows;
  shaped.cols_ = cols;
  shaped.row_stride_ = cols;
  return shaped;
}

}  // namespace quire
