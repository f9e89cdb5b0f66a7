#include "ops/norm.h"

#include "ops/checks.h"
#include "ops/cpu/backend.h"

namespace quire::ops {

void rms_norm(OpContext& context, const Tensor& x, const Tensor& weight, float epsilon, Tensor& out) {
  QUIRE_CHECK(is_float(x, x.rows(), x.cols()) && is_float(out, x.rows(), x.cols()));
  QUIRE_CHECK(is_vector(weight, DType::kFloat32, x.cols()));
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::rms_norm(cpu::kernels(), context, x, weight, epsilon, out);
  }
}

void add_rms_norm(OpContext& context, const Tensor& x, Tensor& residual, const Tensor& weight, float epsilon,
                  Tensor& out) {
  QUIRE_CHECK(is_float(x, x.rows(), x.cols()) && is_float(out, x.rows(), x.cols()));
  QUIRE_CHECK(is_float(residual, x.rows(), x.cols()) && is_vector(weight, DType::kFloat32, x.cols()));
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::add_rms_norm(cpu::kernels(), context, x, residual, weight, epsilon, out);
  }
}

void rms_norm_heads(OpContext& context, Tensor& x, int64_t heads, int64_t head_dim, const Tensor& weight,
                    float epsilon) {
  QUIRE_CHECK(is_float(x, x.rows(), heads * head_dim) && is_vector(weight, DType::kFloat32, head_dim));
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::rms_norm_heads(cpu::kernels(), context, x, heads, head_dim, weight, epsilon);
  }
}

void layer_norm(OpContext& context, const Tensor& x, const Tensor& weight, const Tensor& bias, float epsilon,
                Tensor& out) {
  QUIRE_CHECK(is_float(x, x.rows(), x.cols()) && is_float(out, x.rows(), x.cols()));
  QUIRE_CHECK(is_vector(weight, DType::kFloat32, x.cols()));
  QUIRE_CHECK(!bias.defined() || is_vector(bias, DType::kFloat32, x.cols()));
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::layer_norm(cpu::kernels(), context, x, weight, bias, epsilon, out);
  }
}

}  // namespace quire::ops
