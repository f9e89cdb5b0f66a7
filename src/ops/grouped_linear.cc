#include "ops/grouped_linear.h"

#include "ops/checks.h"
#include "ops/cpu/grouped_linear.h"

namespace quire::ops {

void check_part(const OpContext& context, const LinearPart& part) {
  const int64_t rows = part.out.rows();
  const int64_t out_features = part.out.cols();
  QUIRE_CHECK(rows > 0 && out_features > 0 && is_float(part.out, rows, out_features));
  QUIRE_CHECK(part.out.device() == context.device);
  if (part.weight != nullptr) {
    QUIRE_CHECK(part.weight->out_features == out_features && part.weight->panels.defined());
    QUIRE_CHECK(is_float(part.x, rows, part.weight->in_features) && part.x.device() == context.device);
  } else {
    QUIRE_CHECK(part.accumulate);
  }
  QUIRE_CHECK(!part.gain.defined() || (part.accumulate && is_vector(part.gain, DType::kFloat32, out_features)));
  QUIRE_CHECK(!part.bias.defined() || is_vector(part.bias, DType::kFloat32, out_features));
}

void grouped_linear(OpContext& context, std::span<const LinearPart> parts) {
  for (const LinearPart& part : parts) check_part(context, part);
  if (parts.empty()) return;
  switch (context.device.type) {
    case DeviceType::kCpu:
      return cpu::grouped_linear(context, parts);
  }
}

}  // namespace quire::ops
