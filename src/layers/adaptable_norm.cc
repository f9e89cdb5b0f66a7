#include "layers/adaptable_norm.h"

#include "layers/weight_loading.h"
#include "ops/copy.h"

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

AdaptableNorm::AdaptableNorm(LayerContext& context, const std::string& prefix, int64_t size, bool bias) {
  add_vector(context, prefix + ".weight", size, weight_);
  if (bias) add_vector(context, prefix + ".bias", size, bias_);
  AdaptableLayer adaptable;
  adaptable.kind = AdaptableLayer::Kind::kNorm;
  adaptable.prefix = prefix;
  adaptable.pieces = {{"", size, {0, size}}};
  adaptable.in_features = 1;
  adaptable.input = {0, 1};
  adaptable.norm_weight = &weight_;
  adaptable.bias = &bias_;
  adaptable.norm_hook = &lora_hook_;
  context.adaptable.add(std::move(adaptable));
}

}  // namespace quire
