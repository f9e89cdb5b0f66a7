#include "ops/cpu/backend.h"
#include "ops/cpu/kernels/rows.h"
#include "ops/cpu/parallel.h"

namespace quire::ops::cpu {

namespace {

// An activation costs several times what a load and a store do.
constexpr int64_t kActivationCost = 4;

auto gated_kernel(const RowKernels& kernels, Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return kernels.silu;
    case Activation::kGelu:
      return kernels.gelu;
    case Activation::kGeluTanh:
      return kernels.gelu_tanh;
    case Activation::kRelu:
      return kernels.relu;
  }
  return kernels.silu;
}

}  // namespace

void gated_activation(const KernelTable& table, OpContext& context, Activation activation, const Tensor& gate_up,
                      Tensor& out) {
  const auto kernel = gated_kernel(*table.rows, activation);
  const int64_t n = out.cols();
  for_rows(context, out.rows(), kActivationCost * n, [&](int64_t row) {
    const float* const gate = gate_up.row<float>(row);
    kernel(gate, gate + n, n, out.row<float>(row));
  });
}

void activation(const KernelTable& table, OpContext& context, Activation activation, const Tensor& x, Tensor& out) {
  const auto kernel = gated_kernel(*table.rows, activation);
  for_rows(context, x.rows(), kActivationCost * x.cols(),
           [&](int64_t row) { kernel(x.row<float>(row), nullptr, x.cols(), out.row<float>(row)); });
}

void add(const KernelTable& table, OpContext& context, const Tensor& y, Tensor& x) {
  for_rows(context, x.rows(), x.cols(),
           [&](int64_t row) { table.rows->add(y.row<float>(row), x.cols(), x.row<float>(row)); });
}

void scale(const KernelTable& table, OpContext& context, float factor, Tensor& x) {
  for_rows(context, x.rows(), x.cols(), [&](int64_t row) { table.rows->scale(factor, x.cols(), x.row<float>(row)); });
}

}  // namespace quire::ops::cpu
