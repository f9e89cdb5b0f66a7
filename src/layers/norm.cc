#include "layers/norm.h"

#include "ops/norm.h"

namespace quire {

RMSNorm::RMSNorm(LayerContext& context, const std::string& prefix, int64_t size, double epsilon)
    : AdaptableNorm(context, prefix, size, false), epsilon_(static_cast<float>(epsilon)) {}

void RMSNorm::forward(const ForwardBatch& batch, const Tensor& x, Tensor& out) const {
  for_each_run(batch, x.rows(), [&](int64_t first, int64_t count, const Tensor& weight, const Tensor&) {
    Tensor run = out.slice_rows(first, count);
    ops::rms_norm(*batch.context, x.slice_rows(first, count), weight, epsilon_, run);
  });
}

void RMSNorm::forward(const ForwardBatch& batch, const Tensor& x, Tensor& residual, Tensor& out) const {
  for_each_run(batch, x.rows(), [&](int64_t first, int64_t count, const Tensor& weight, const Tensor&) {
    Tensor residual_run = residual.slice_rows(first, count);
    Tensor run = out.slice_rows(first, count);
    ops::add_rms_norm(*batch.context, x.slice_rows(first, count), residual_run, weight, epsilon_, run);
  });
}

void RMSNorm::forward_heads(const ForwardBatch& batch, Tensor& x, int64_t heads) const {
  for_each_run(batch, x.rows(), [&](int64_t first, int64_t count, const Tensor& weight, const Tensor&) {
    Tensor run = x.slice_rows(first, count);
    ops::rms_norm_heads(*batch.context, run, heads, size(), weight, epsilon_);
  });
}

}  // namespace quire
