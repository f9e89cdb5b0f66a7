#include "layers/layer_norm.h"

#include "ops/norm.h"

namespace quire {

LayerNorm::LayerNorm(LayerContext& context, const std::string& prefix, int64_t size, double epsilon, bool bias)
    : AdaptableNorm(context, prefix, size, bias), epsilon_(static_cast<float>(epsilon)) {}

void LayerNorm::forward(const ForwardBatch& batch, const Tensor& x, Tensor& out) const {
  for_each_run(batch, x.rows(), [&](int64_t first, int64_t count, const Tensor& weight, const Tensor& bias) {
    Tensor run = out.slice_rows(first, count);
    ops::layer_norm(*batch.context, x.slice_rows(first, count), weight, bias, epsilon_, run);
  });
}

}  // namespace quire
