#include "ops/copy.h"

#include "ops/checks.h"
#include "ops/cpu/backend.h"

namespace quire::ops {

namespace {

template <typename T>
void copy_values(const OpContext& context, std::span<const T> values, Tensor& out) {
  QUIRE_CHECK(dtype_holds<T>(out.dtype()) && out.contiguous() && out.size() == static_cast<int64_t>(values.size()));
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::copy_from_host(values.data(), out);
  }
}

}  // namespace

void copy_from_host(OpContext& context, std::span<const int32_t> values, Tensor& out) {
  copy_values(context, values, out);
}
void copy_from_host(OpContext& context, std::span<const int64_t> values, Tensor& out) {
  copy_values(context, values, out);
}
void copy_from_host(OpContext& context, std::span<const float> values, Tensor& out) {
  copy_values(context, values, out);
}

void copy_to_host(OpContext& context, const Tensor& x, std::span<float> out) {
  QUIRE_CHECK(is_float(x, x.rows(), x.cols()) && x.size() == static_cast<int64_t>(out.size()));
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::copy_to_host(x, out);
  }
}

void select_rows(OpContext& context, const Tensor& x, std::span<const int32_t> rows, Tensor& out) {
  QUIRE_CHECK(is_float(x, x.rows(), x.cols()) && is_float(out, static_cast<int64_t>(rows.size()), x.cols()));
  for (const int32_t row : rows) QUIRE_CHECK(row >= 0 && row < x.rows());
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::select_rows(x, rows, out);
  }
}

}  // namespace quire::ops
