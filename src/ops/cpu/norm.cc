#include "ops/cpu/backend.h"
#include "ops/cpu/kernels/rows.h"
#include "ops/cpu/parallel.h"

namespace quire::ops::cpu {

void rms_norm(const KernelTable& table, OpContext& context, const Tensor& x, const Tensor& weight, float epsilon,
              Tensor& out) {
  for_rows(context, x.rows(), x.cols(), [&](int64_t row) {
    table.rows->rms_norm(x.row<float>(row), weight.data<float>(), epsilon, x.cols(), out.row<float>(row));
  });
}

void add_rms_norm(const KernelTable& table, OpContext& context, const Tensor& x, Tensor& residual, const Tensor& weight,
                  float epsilon, Tensor& out) {
  for_rows(context, x.rows(), 2 * x.cols(), [&](int64_t row) {
    float* const sum = residual.row<float>(row);
    table.rows->add(x.row<float>(row), x.cols(), sum);
    table.rows->rms_norm(sum, weight.data<float>(), epsilon, x.cols(), out.row<float>(row));
  });
}

void rms_norm_heads(const KernelTable& table, OpContext& context, Tensor& x, int64_t heads, int64_t head_dim,
                    const Tensor& weight, float epsilon) {
  for_rows(context, x.rows(), heads * head_dim, [&](int64_t row) {
    for (int64_t head = 0; head < heads; ++head) {
      float* const values = x.row<float>(row) + head * head_dim;
      table.rows->rms_norm(values, weight.data<float>(), epsilon, head_dim, values);
    }
  });
}

void layer_norm(const KernelTable& table, OpContext& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                float epsilon, Tensor& out) {
  const float* const shift = bias.defined() ? bias.data<float>() : nullptr;
  for_rows(context, x.rows(), 2 * x.cols(), [&](int64_t row) {
    table.rows->layer_norm(x.row<float>(row), weight.data<float>(), shift, epsilon, x.cols(), out.row<float>(row));
  });
}

}  // namespace quire::ops::cpu
