// What the tests of packed products share.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/kernel_table.h"
#include "ops/linear.h"
#include "tensor/convert.h"

namespace quire::ops {

/// A context with a pool of its own and memory for weights.
struct Fixture {
  explicit Fixture(int threads = 2) : pool({.threads = threads, .pin = false}) { context = {{}, &pool, &workspace}; }
  ThreadPool pool;
  Workspace workspace;
  HugePageArena arena;
  OpContext context;
};

/// Every ISA that this CPU can run; generic is the first.
inline std::vector<cpu::Isa> offered_isas() {
  std::vector<cpu::Isa> isas;
  for (const cpu::Isa isa : {cpu::Isa::kGeneric, cpu::Isa::kAvx2, cpu::Isa::kAvx512, cpu::Isa::kAvx512Bf16}) {
    if (cpu::kernels_for(isa) != nullptr) isas.push_back(isa);
  }
  return isas;
}

inline std::vector<float> random_values(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

/// A value of x as the ISA multiplies it with weights of a type.
inline float as_multiplied(float value, cpu::Isa isa, DType weights, int64_t in_features) {
  const bool rounded = isa == cpu::Isa::kAvx512Bf16 && weights == DType::kBFloat16 && in_features % 2 == 0;
  return rounded ? bfloat16_to_float(float_to_bfloat16(value)) : value;
}

/// A host matrix in a storage type, and its values as they are after rounding.
struct Weights {
  Weights(int64_t rows, int64_t cols, DType dtype, uint32_t seed) : tensor(Tensor::empty(rows, cols, dtype)) {
    values = random_values(rows * cols, seed);
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::kFloat32) {
        tensor.data<float>()[i] = values[i];
      } else if (dtype == DType::kBFloat16) {
        tensor.data<uint16_t>()[i] = float_to_bfloat16(values[i]);
        values[i] = bfloat16_to_float(tensor.data<uint16_t>()[i]);
      } else {
        tensor.data<uint16_t>()[i] = float_to_float16(values[i]);
        values[i] = float16_to_float(tensor.data<uint16_t>()[i]);
      }
    }
  }
  MatrixView view(int64_t row, int64_t rows, int64_t col, int64_t cols) const {
    const size_t offset = static_cast<size_t>(row * tensor.cols() + col) * dtype_size(tensor.dtype());
    return {static_cast<const std::byte*>(tensor.raw()) + offset, tensor.dtype(), rows, cols, tensor.cols()};
  }
  MatrixView view() const { return view(0, tensor.rows(), 0, tensor.cols()); }
  Tensor tensor;
  std::vector<float> values;
};

/// The weights in panels, over memory that was full of NaN.
inline PackedMatrix packed(Fixture& fixture, const Weights& weights, DType dtype) {
  PackedMatrix matrix = make_packed_matrix(fixture.arena, weights.tensor.rows(), weights.tensor.cols(), dtype);
  std::memset(matrix.panels.raw(), 0xff, PackedMatrix::bytes(matrix.out_features, matrix.in_features, dtype));
  pack_rows(fixture.context, weights.view(), 0, 0, matrix);
  return matrix;
}

inline std::string isa_name(const testing::TestParamInfo<cpu::Isa>& info) {
  if (info.param == cpu::Isa::kGeneric) return "generic";
  if (info.param == cpu::Isa::kAvx2) return "avx2";
  return info.param == cpu::Isa::kAvx512 ? "avx512" : "avx512_bf16";
}

}  // namespace quire::ops
