// What the op tests share: random tensors, pools, and the tables of kernels that this machine can run.
#pragma once

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "ops/cpu/kernel_table.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// The tables of every ISA that this CPU can run; generic is the first.
inline std::vector<const cpu::KernelTable*> available_tables() {
  std::vector<const cpu::KernelTable*> tables;
  for (const cpu::Isa isa : {cpu::Isa::kGeneric, cpu::Isa::kAvx2, cpu::Isa::kAvx512, cpu::Isa::kAvx512Bf16}) {
    if (const cpu::KernelTable* const table = cpu::kernels_for(isa)) tables.push_back(table);
  }
  return tables;
}

/// A context with a pool of its own.
class TestContext {
 public:
  explicit TestContext(int threads = 1) {
    ThreadPoolOptions options;
    options.threads = threads;
    options.pin = false;
    pool_ = std::make_unique<ThreadPool>(options);
    context_.pool = pool_.get();
    context_.workspace = &workspace_;
  }
  OpContext& get() { return context_; }
  Workspace& workspace() { return workspace_; }

 private:
  std::unique_ptr<ThreadPool> pool_;
  Workspace workspace_;
  OpContext context_;
};

/// Normally distributed values times `scale`; the row stride is `padding` larger than the row.
inline Tensor random_tensor(int64_t rows, int64_t cols, std::mt19937& random, float scale = 1.0f, int64_t padding = 0) {
  const Tensor memory = Tensor::empty(rows, cols + padding, DType::kFloat32);
  std::normal_distribution<float> normal(0.0f, scale);
  for (int64_t i = 0; i < memory.size(); ++i) memory.data<float>()[i] = normal(random);
  return memory.slice_cols(0, cols);
}

inline Tensor copy_of(const Tensor& x) {
  Tensor copy = Tensor::empty(x.rows(), x.cols(), DType::kFloat32);
  for (int64_t row = 0; row < x.rows(); ++row) {
    for (int64_t col = 0; col < x.cols(); ++col) copy.row<float>(row)[col] = x.row<float>(row)[col];
  }
  return copy;
}

/// Equal bit for bit in value: no tolerance, NaN never equal.
inline bool same_values(const Tensor& a, const Tensor& b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return false;
  for (int64_t row = 0; row < a.rows(); ++row) {
    for (int64_t col = 0; col < a.cols(); ++col) {
      if (!(a.row<float>(row)[col] == b.row<float>(row)[col])) return false;
    }
  }
  return true;
}

}  // namespace quire::ops
