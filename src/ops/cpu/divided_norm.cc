#include <cmath>

#include "ops/cpu/backend.h"
#include "ops/cpu/parallel.h"

namespace quire::ops::cpu {

// A row is summed in ascending order by one thread, so nothing but the row decides its bits.
void sum_of_squares(OpContext& context, const Tensor& x, Tensor& sums) {
  for_rows(context, x.rows(), x.cols(), [&](int64_t row) {
    const float* const values = x.row<float>(row);
    double sum = 0.0;
    for (int64_t i = 0; i < x.cols(); ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    *sums.row<float>(row) = static_cast<float>(sum);
  });
}

void rms_norm_by_sums(OpContext& context, const Tensor& x, const Tensor& sums, int64_t size, const Tensor& weight,
                      float epsilon, Tensor& out) {
  const float* const weights = weight.data<float>();
  for_rows(context, x.rows(), x.cols(), [&](int64_t row) {
    const float mean = *sums.row<float>(row) / static_cast<float>(size);
    const float factor = 1.0f / std::sqrt(mean + epsilon);
    const float* const values = x.row<float>(row);
    float* const result = out.row<float>(row);
    for (int64_t i = 0; i < x.cols(); ++i) result[i] = values[i] * factor * weights[i];
  });
}

}  // namespace quire::ops::cpu
