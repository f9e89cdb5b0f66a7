#include "ops/activation.h"

#include "ops/checks.h"
#include "ops/cpu/backend.h"

namespace quire::ops {

void gated_activation(OpContext& context, Activation activation, const Tensor& gate_up, Tensor& out) {
  QUIRE_CHECK(is_float(out, out.rows(), out.cols()) && is_float(gate_up, out.rows(), 2 * out.cols()));
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::gated_activation(cpu::kernels(), context, activation, gate_up, out);
  }
}

void activation(OpContext& context, Activation activation, const Tensor& x, Tensor& out) {
  QUIRE_CHECK(is_float(x, x.rows(), x.cols()) && is_float(out, x.rows(), x.cols()));
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::activation(cpu::kernels(), context, activation, x, out);
  }
}

void add(OpContext& context, const Tensor& y, Tensor& x) {
  QUIRE_CHECK(is_float(x, x.rows(), x.cols()) && is_float(y, x.rows(), x.cols()));
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::add(cpu::kernels(), context, y, x);
  }
}

void scale(OpContext& context, float factor, Tensor& x) {
  QUIRE_CHECK(is_float(x, x.rows(), x.cols()));
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::scale(cpu::kernels(), context, factor, x);
  }
}

}  // namespace quire::ops
