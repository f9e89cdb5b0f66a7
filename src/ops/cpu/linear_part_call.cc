#include "ops/cpu/linear_part_call.h"

#include <algorithm>

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/linear.h"

namespace quire::ops::cpu {

LinearPartCall call_of(const LinearPart& part) {
  LinearPartCall result{};
  LinearCall& call = result.call;
  call.rows = part.out.rows();
  call.out_features = part.out.cols();
  call.out = part.out.data<float>();
  call.out_stride = part.out.row_stride();
  call.accumulate = part.accumulate;
  call.scale = part.scale;
  call.gain = part.gain.defined() ? part.gain.data<float>() : nullptr;
  call.bias = part.bias.defined() ? part.bias.data<float>() : nullptr;
  if (part.weight == nullptr) {
    // There are no features and nothing is read: any address does.
    result.kernels = kernels().linear;
    call.panels = part.out.raw();
    call.storage = Storage::kFloat32;
    call.x = call.out;
    call.x_stride = call.out_stride;
    return result;
  }
  result.kernels = &linear_kernels_of(*part.weight);
  call.panels = part.weight->panels.raw();
  call.storage = storage_of(part.weight->dtype);
  call.in_features = features_of(*part.weight, *result.kernels);
  call.x = part.x.data<float>();
  call.x_stride = part.x.row_stride();
  return result;
}

void LinearPartCall::run(int64_t first_row, int64_t last_row, int64_t first_panel, int64_t last_panel,
                         float* prepared) const {
  LinearCall rows_call = call;
  rows_call.rows = last_row - first_row;
  rows_call.x += first_row * call.x_stride;
  rows_call.out += first_row * call.out_stride;
  kernels->multiply_streaming(with_prepared_rows(*kernels, rows_call, prepared), first_panel, last_panel);
}

int64_t prepared_floats(std::span<const LinearPartCall> calls) {
  int64_t floats = 1;
  for (const LinearPartCall& part : calls) {
    if (part.kernels->prepare_row == nullptr) continue;
    floats = std::max(floats, std::min(part.call.rows, part.kernels->streaming_rows) * part.call.in_features);
  }
  return floats;
}

}  // namespace quire::ops::cpu
