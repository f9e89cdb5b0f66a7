// A typed, shaped view of device memory, owning it or not. Rows are contiguous; the row stride may be larger than a
// row.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "base/api.h"
#include "base/check.h"
#include "tensor/device.h"
#include "tensor/dtype.h"

namespace quire {

template <typename T>
constexpr bool dtype_holds(DType dtype) {
  if constexpr (std::is_same_v<T, float>) return dtype == DType::kFloat32;
  if constexpr (std::is_same_v<T, uint16_t>) return dtype == DType::kBFloat16 || dtype == DType::kFloat16;
  if constexpr (std::is_same_v<T, int8_t>) return dtype == DType::kInt8;
  if constexpr (std::is_same_v<T, uint8_t>) return dtype == DType::kUInt8;
  if constexpr (std::is_same_v<T, int32_t>) return dtype == DType::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return dtype == DType::kInt64;
  return false;
}

/// A matrix of `rows` x `cols` elements, or a vector (rows == 1), with elements of a row side by side. Copying a Tensor
/// copies the view; memory made by Tensor::empty is freed with its last view.
class QUIRE_API Tensor {
 public:
  Tensor() = default;

  /// New uninitialised memory, 64-byte aligned.
  static Tensor empty(int64_t rows, int64_t cols, DType dtype, Device device = {});
  /// A view of memory that someone else keeps alive. `row_stride` in elements; 0 means `cols`.
  static Tensor view(void* data, int64_t rows, int64_t cols, DType dtype, Device device = {}, int64_t row_stride = 0);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t size() const { return rows_ * cols_; }
  int64_t row_stride() const { return row_stride_; }
  bool contiguous() const { return row_stride_ == cols_ || rows_ <= 1; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  bool defined() const { return data_ != nullptr; }

  /// The first element; T must match the dtype (uint16_t holds bfloat16 and float16). Dereferenced only in
  /// ops/<device>.
  template <typename T>
  T* data() const {
    QUIRE_CHECK(dtype_holds<T>(dtype_));
    return static_cast<T*>(data_);
  }
  template <typename T>
  T* row(int64_t index) const {
    return data<T>() + index * row_stride_;
  }
  void* raw() const { return data_; }

  /// Rows [begin, begin + count) as a view.
  Tensor slice_rows(int64_t begin, int64_t count) const;
  /// Columns [begin, begin + count) of every row as a view.
  Tensor slice_cols(int64_t begin, int64_t count) const;
  /// The same contiguous elements in another shape.
  Tensor reshape(int64_t rows, int64_t cols) const;

 private:
  std::shared_ptr<void> owner_;
  void* data_ = nullptr;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  int64_t row_stride_ = 0;
  DType dtype_ = DType::kFloat32;
  Device device_;
};

/// Rows of a checkpoint tensor in host memory, as a reader lends them.
struct MatrixView {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;  ///< kFloat32, kBFloat16 or kFloat16
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;  ///< elements
};

}  // namespace quire
