// The packed linear: against float64 sums, and bit for bit against itself in other company. Every test runs with each
// ISA of this CPU.
#include "ops/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/cpu/kernel_table.h"
#include "ops/packed_fixture.h"
#include "tensor/convert.h"

namespace quire::ops {
namespace {

Tensor tensor_of(const std::vector<float>& values, int64_t rows, int64_t cols, int64_t stride) {
  Tensor memory = Tensor::empty(rows, stride, DType::kFloat32);
  std::fill_n(memory.data<float>(), memory.size(), -77.0f);
  for (int64_t r = 0; r < rows; ++r) std::copy_n(values.data() + r * cols, cols, memory.row<float>(r));
  return memory.slice_cols(0, cols);
}

class LinearTest : public testing::TestWithParam<cpu::Isa> {
 protected:
  cpu::KernelOverride kernels_{*cpu::kernels_for(GetParam())};
};

TEST_P(LinearTest, MatchesFloat64ForAllShapesStridesAndTypes) {
  Fixture fixture;
  uint32_t seed = 1;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int64_t out_features : {1, 15, 17, 64, 203}) {
      for (const int64_t in_features : {1, 3, 64, 577, 770}) {
        const Weights weights(out_features, in_features, dtype, ++seed);
        const PackedMatrix matrix = packed(fixture, weights, dtype);
        for (const int64_t rows : {1, 2, 3, 5, 6, 7, 13, 31}) {
          const std::vector<float> x = random_values(rows * in_features, ++seed);
          const std::vector<float> bias = random_values(out_features, ++seed);
          std::vector<float> factors = x;
          for (float& factor : factors) factor = as_multiplied(factor, GetParam(), dtype, in_features);
          Tensor out = tensor_of(std::vector<float>(static_cast<size_t>(rows * out_features)), rows, out_features,
                                 out_features + 5);
          linear(fixture.context, tensor_of(x, rows, in_features, in_features + 3), matrix,
                 rows % 3 == 0 ? Tensor() : tensor_of(bias, 1, out_features, out_features), out);
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t n = 0; n < out_features; ++n) {
              double sum = 0;
              double magnitude = 0;
              for (int64_t k = 0; k < in_features; ++k) {
                const double product = static_cast<double>(factors[static_cast<size_t>(r * in_features + k)]) *
                                       weights.values[static_cast<size_t>(n * in_features + k)];
                sum += product;
                magnitude += std::abs(product);
              }
              if (rows % 3 != 0) sum += bias[static_cast<size_t>(n)];
              // n additions and multiplications, each off by at most half a last place: the usual bound, far from
              // reached.
              const double bound = (magnitude + 8) * static_cast<double>(in_features + 2) * std::ldexp(1.0, -24);
              ASSERT_NEAR(out.row<float>(r)[n], sum, bound) << rows << "x" << out_features << "x" << in_features;
            }
            for (int64_t i = out_features; i < out_features + 5 && r + 1 < rows; ++i) {
              ASSERT_EQ(out.row<float>(r)[i], -77.0f) << "written beyond the row";
            }
          }
        }
      }
    }
  }
}

TEST_P(LinearTest, ARowsBitsDoNotDependOnItsCompany) {
  constexpr int64_t kRows = 1000;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const auto& [out_features, in_features] : {std::pair<int64_t, int64_t>{1003, 577}, {48, 1030}}) {
      const Weights weights(out_features, in_features, dtype, 7);
      const Tensor x = tensor_of(random_values(kRows * in_features, 8), kRows, in_features, in_features);
      Tensor together = Tensor::empty(kRows, out_features, DType::kFloat32);
      {
        Fixture fixture(2);
        linear(fixture.context, x, packed(fixture, weights, dtype), {}, together);
      }
      for (const int threads : {1, 2, 4}) {
        Fixture fixture(threads);
        const PackedMatrix matrix = packed(fixture, weights, dtype);
        int64_t row = 0;
        for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 24, 33, 64, 130, 300}) {
          Tensor out = Tensor::empty(rows, out_features, DType::kFloat32);
          linear(fixture.context, x.slice_rows(row, rows), matrix, {}, out);
          for (int64_t r = 0; r < rows; ++r) {
            ASSERT_EQ(std::memcmp(out.row<float>(r), together.row<float>(row + r),
                                  static_cast<size_t>(out_features) * sizeof(float)),
                      0)
                << "row " << row + r << " among " << rows << ", " << threads << " threads";
          }
          row += rows;
        }
      }
    }
  }
}

TEST_P(LinearTest, PacksPiecesOfAnyTypeAndGathersThem) {
  constexpr int64_t kOut = 83;
  constexpr int64_t kIn = 131;
  for (const DType source : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const DType storage : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      Fixture fixture;
      const Weights weights(kOut, kIn, source, 11);
      PackedMatrix matrix = make_packed_matrix(fixture.arena, kOut, kIn, storage);
      std::memset(matrix.panels.raw(), 0xff, PackedMatrix::bytes(kOut, kIn, storage));
      int64_t row = 0;
      for (const int64_t rows : {5, 40, 38}) {
        pack_rows(fixture.context, weights.view(row, rows, 0, 70), row, 0, matrix);
        pack_rows(fixture.context, weights.view(row, rows, 70, kIn - 70), row, 70, matrix);
        row += rows;
      }
      Tensor ids = Tensor::empty(1, kOut + 2, DType::kInt32);
      for (int32_t i = 0; i < kOut; ++i) ids.data<int32_t>()[i] = kOut - 1 - i;
      ids.data<int32_t>()[kOut] = -1;
      ids.data<int32_t>()[kOut + 1] = kOut;
      Tensor out = Tensor::empty(kOut + 2, kIn, DType::kFloat32);
      gather_rows(fixture.context, matrix, ids, out);
      for (int64_t i = 0; i < kOut + 2; ++i) {
        for (int64_t k = 0; k < kIn; ++k) {
          float expected = 0;
          if (i < kOut) expected = weights.values[static_cast<size_t>((kOut - 1 - i) * kIn + k)];
          if (storage == DType::kBFloat16) expected = bfloat16_to_float(float_to_bfloat16(expected));
          if (storage == DType::kFloat16) expected = float16_to_float(float_to_float16(expected));
          ASSERT_EQ(out.row<float>(i)[k], expected) << i << " " << k;
        }
      }
      for (int64_t k = 0; k < kIn; ++k) {  // the padding channels
        for (int64_t lane = kOut % 16; lane < 16; ++lane) {
          const int64_t element = (kOut / 16 * kIn + k) * 16 + lane;
          if (storage == DType::kFloat32) {
            ASSERT_EQ(matrix.panels.data<float>()[element], 0.0f);
          } else {
            ASSERT_EQ(matrix.panels.data<uint16_t>()[element], 0);
          }
        }
      }
    }
  }
}

TEST_P(LinearTest, ConvertsSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {0.0f,   -0.0f,    1.0f,      65519.9f, 65520.0f,  1e6f,
                                     -1e6f,  infinity, -infinity, NAN,      6e-8f,     2.9e-8f,
                                     3e-8f,  5.96e-5f, 6.1e-5f,   3.4e38f,  1e-40f,    1.00390625f,
                                     1.005f, 0.99999f, 2048.5f,   2049.5f,  -6.09e-5f, 1.1754e-38f};
  Fixture fixture;
  const int64_t count = static_cast<int64_t>(values.size());
  const MatrixView view{values.data(), DType::kFloat32, 1, count, count};
  for (const DType storage : {DType::kBFloat16, DType::kFloat16}) {
    PackedMatrix matrix = make_packed_matrix(fixture.arena, 1, count, storage);
    pack_rows(fixture.context, view, 0, 0, matrix);
    for (int64_t k = 0; k < count; ++k) {
      const float value = values[static_cast<size_t>(k)];
      const uint16_t bits = matrix.panels.data<uint16_t>()[k * 16];
      const uint16_t expected = storage == DType::kBFloat16 ? float_to_bfloat16(value) : float_to_float16(value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(storage == DType::kBFloat16 ? bfloat16_to_float(bits) : float16_to_float(bits)));
      } else {
        EXPECT_EQ(bits, expected) << value;
      }
    }
  }
}

TEST_P(LinearTest, RefusesWrongShapes) {
  Fixture fixture;
  const Weights weights(16, 8, DType::kFloat32, 3);
  PackedMatrix matrix = packed(fixture, weights, DType::kFloat32);
  Tensor out = Tensor::empty(2, 16, DType::kFloat32);
  EXPECT_THROW(linear(fixture.context, Tensor::empty(2, 9, DType::kFloat32), matrix, {}, out), CheckFailure);
  EXPECT_THROW(linear(fixture.context, Tensor::empty(3, 8, DType::kFloat32), matrix, {}, out), CheckFailure);
  EXPECT_THROW(
      linear(fixture.context, Tensor::empty(2, 8, DType::kFloat32), matrix, Tensor::empty(1, 8, DType::kFloat32), out),
      CheckFailure);
  EXPECT_THROW(pack_rows(fixture.context, weights.view(), 1, 0, matrix), CheckFailure);
  EXPECT_THROW(pack_rows(fixture.context, weights.view(), 0, 1, matrix), CheckFailure);
}

INSTANTIATE_TEST_SUITE_P(EachIsa, LinearTest, testing::ValuesIn(offered_isas()), isa_name);

}  // namespace
}  // namespace quire::ops
