#include "ops/divided_norm.h"

#include "ops/checks.h"
#include "ops/cpu/backend.h"

namespace quire::ops {

void sum_of_squares(OpContext& context, const Tensor& x, Tensor& sums) {
  QUIRE_CHECK(is_float(x, x.rows(), x.cols()) && is_float(sums, x.rows(), 1));
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::sum_of_squares(context, x, sums);
  }
}

void rms_norm_by_sums(OpContext& context, const Tensor& x, const Tensor& sums, int64_t size, const Tensor& weight,
                      float epsilon, Tensor& out) {
  QUIRE_CHECK(is_float(x, x.rows(), x.cols()) && is_float(out, x.rows(), x.cols()) && is_float(sums, x.rows(), 1) &&
              is_float(weight, 1, x.cols()) && size > 0);
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::rms_norm_by_sums(context, x, sums, size, weight, epsilon, out);
  }
}

}  // namespace quire::ops
