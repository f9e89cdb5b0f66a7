#include "ops/cpu/backend.h"
#include "ops/cpu/kernels/rows.h"
#include "ops/cpu/parallel.h"

namespace quire::ops::cpu {

void rotary_embedding(const KernelTable& table, OpContext& context, const Tensor& positions, const Tensor& cos_sin,
                      int64_t heads, int64_t head_dim, Tensor& x) {
  const int32_t* const position = positions.data<int32_t>();
  for (int64_t row = 0; row < x.rows(); ++row) QUIRE_CHECK(position[row] >= 0 && position[row] < cos_sin.rows());
  const int64_t half = cos_sin.cols() / 2;
  for_rows(context, x.rows(), heads * head_dim, [&](int64_t row) {
    const float* const cosines = cos_sin.row<float>(position[row]);
    for (int64_t head = 0; head < heads; ++head) {
      table.rows->rotate(cosines, cosines + half, half, x.row<float>(row) + head * head_dim);
    }
  });
}

}  // namespace quire::ops::cpu
