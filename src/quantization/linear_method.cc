#include "quantization/linear_method.h"

namespace quire {

void LinearWeight::apply(OpContext& context, const Tensor& x, const Tensor& bias, Tensor& out,
                         std::span<const ops::LinearPart> additions) const {
  apply(context, x, bias, out);
  ops::grouped_linear(context, additions);
}

}  // namespace quire
