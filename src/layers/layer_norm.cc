#include "layers/layer_norm.h"

#include "layers/weight_loading.h"
#include "ops/copy.h"
#include "ops/norm.h"

namespace quire {

namespace {

/// Registers a vector that is filled as the checkpoint has it. `target` must stay where it is.
void add_vector(LayerContext& context, std::string name, int64_t size, Tensor& target) {
  target = Tensor::empty(1, size, DType::kFloat32, context.op_context.device);
  context.parameters.add(std::move(name), {size}, {},
                         [&target, &op_context = context.op_context, storage = context.storage](
                             const WeightSource& source, const WeightInfo& weight, std::string_view) -> Status {
                           QUIRE_ASSIGN_OR_RETURN(const std::vector<float> values,
                                                  load_vector(source, weight, storage));
                           ops::copy_from_host(op_context, values, target);
                           return {};
                         });
}

}  // namespace

LayerNorm::LayerNorm(LayerContext& context, const std::string& prefix, int64_t size, double epsilon, bool bias)
    : epsilon_(static_cast<float>(epsilon)) {
  add_vector(context, prefix + ".weight", size, weight_);
  if (bias) add_vector(context, prefix + ".bias", size, bias_);
}

void LayerNorm::forward(OpContext& context, const Tensor& x, Tensor& out) const {
  ops::layer_norm(context, x, weight_, bias_, epsilon_, out);
}

}  // namespace quire
