#include "ops/rotary.h"

#include "ops/checks.h"
#include "ops/cpu/backend.h"

namespace quire::ops {

void rotary_embedding(OpContext& context, const Tensor& positions, const Tensor& cos_sin, int64_t heads,
                      int64_t head_dim, Tensor& x) {
  QUIRE_CHECK(is_float(x, x.rows(), heads * head_dim) && is_vector(positions, DType::kInt32, x.rows()));
  QUIRE_CHECK(is_float(cos_sin, cos_sin.rows(), cos_sin.cols()));
  QUIRE_CHECK(cos_sin.cols() % 2 == 0 && cos_sin.cols() <= head_dim);
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::rotary_embedding(cpu::kernels(), context, positions, cos_sin, heads, head_dim, x);
  }
}

}  // namespace quire::ops
