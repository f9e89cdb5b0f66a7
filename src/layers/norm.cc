#include "layers/norm.h"

#include "layers/weight_loading.h"
#include "ops/copy.h"
#include "ops/norm.h"

namespace quire {

RMSNorm::RMSNorm(LayerContext& context, const std::string& prefix, int64_t size, double epsilon)
    : weight_(Tensor::empty(1, size, DType::kFloat32, context.op_context.device)),
      epsilon_(static_cast<float>(epsilon)) {
  context.parameters.add(prefix + ".weight", {size}, {},
                         [this, &op_context = context.op_context, storage = context.storage](
                             const WeightSource& source, const WeightInfo& weight, std::string_view) -> Status {
                           QUIRE_ASSIGN_OR_RETURN(const std::vector<float> values,
                                                  load_vector(source, weight, storage));
                           ops::copy_from_host(op_context, values, weight_);
                           return {};
                         });
}

void RMSNorm::forward(OpContext& context, const Tensor& x, Tensor& out) const {
  ops::rms_norm(context, x, weight_, epsilon_, out);
}

void RMSNorm::forward(OpContext& context, const Tensor& x, Tensor& residual, Tensor& out) const {
  ops::add_rms_norm(context, x, residual, weight_, epsilon_, out);
}

void RMSNorm::forward_heads(OpContext& context, Tensor& x, int64_t heads) const {
  ops::rms_norm_heads(context, x, heads, weight_.cols(), weight_, epsilon_);
}

}  // namespace quire
