// The compressed linear: against float64 sums of what its bytes stand for, and bit for bit against itself in other
// company and with every instruction set.
#include "ops/quantized_linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/kernels/quantized.h"
#include "ops/packed_fixture.h"
#include "tensor/convert.h"

namespace quire::ops {
namespace {

constexpr QuantFormat kFormats[] = {QuantFormat::kInt8,  QuantFormat::kQ8,  QuantFormat::kQ4,
                                    QuantFormat::kQ4Min, QuantFormat::kQ4K, QuantFormat::kQ6K};

int most_quant(QuantFormat format) {
  if (format == QuantFormat::kInt8 || format == QuantFormat::kQ8) return 255;
  return format == QuantFormat::kQ6K ? 63 : 15;
}

/// Any value that a format can hold: extreme bytes, scales of either sign.
QuantizedChannel random_channel(QuantFormat format, int64_t in_features, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, 0.01f);
  QuantizedChannel channel = QuantizedChannel::zero(format, in_features);
  for (uint8_t& q : channel.quants) q = static_cast<uint8_t>(random() % static_cast<unsigned>(most_quant(format) + 1));
  if (format == QuantFormat::kInt8) channel.scale = normal(random);
  for (uint16_t& d : channel.scales) d = float_to_float16(normal(random));
  for (uint16_t& m : channel.minimums) m = float_to_float16(normal(random));
  const unsigned kinds = format == QuantFormat::kQ6K ? 256 : 64;
  for (uint8_t& s : channel.sub_scales) s = static_cast<uint8_t>(random() % kinds);
  for (uint8_t& t : channel.sub_minimums) t = static_cast<uint8_t>(random() % kinds);
  return channel;
}

struct RandomMatrix {
  RandomMatrix(Fixture& fixture, QuantFormat format, int64_t out_features, int64_t in_features, uint32_t seed)
      : matrix(make_quantized_matrix(fixture.context, fixture.arena, out_features, in_features, format)) {
    std::mt19937 random(seed);
    weights.resize(static_cast<size_t>(out_features * in_features));
    for (int64_t n = 0; n < out_features; ++n) {
      channels.push_back(random_channel(format, in_features, random));
      pack_channel(channels.back(), n, matrix);
      dequantize_channel(channels.back(), format, in_features, weights.data() + n * in_features);
    }
  }
  QuantizedMatrix matrix;
  std::vector<QuantizedChannel> channels;
  std::vector<float> weights;
};

/// Values as the product takes them: rounded to bytes, times their scale.
std::vector<float> as_bytes(const float* x, int64_t count, int64_t run) {
  std::vector<float> rounded(x, x + count);
  for (int64_t begin = 0; begin < count; begin += run) {
    const int64_t end = std::min(count, begin + run);
    float largest = 0;
    for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(x[i]));
    if (largest == 0) continue;
    for (int64_t i = begin; i < end; ++i) {
      rounded[static_cast<size_t>(i)] = std::nearbyint(x[i] * (127.0f / largest)) * (largest / 127.0f);
    }
  }
  return rounded;
}

Tensor rows_of(int64_t rows, int64_t cols, uint32_t seed) {
  Tensor x = Tensor::empty(rows, cols, DType::kFloat32);
  const std::vector<float> values = random_values(rows * cols, seed);
  std::memcpy(x.raw(), values.data(), values.size() * sizeof(float));
  return x;
}

Tensor product(Fixture& fixture, const Tensor& x, const QuantizedMatrix& matrix, const Tensor& bias = {}) {
  Tensor out = Tensor::empty(x.rows(), matrix.out_features, DType::kFloat32);
  const QuantizedPart part{&matrix, 0};
  quantized_linear(fixture.context, x, {&part, 1}, bias, out, {});
  return out;
}

bool same_rows(const Tensor& a, int64_t first, const Tensor& b, int64_t other, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    const size_t size = static_cast<size_t>(a.cols()) * sizeof(float);
    if (std::memcmp(a.row<float>(first + r), b.row<float>(other + r), size) != 0) return false;
  }
  return true;
}

/// While it lives, compressed weights are multiplied by those kernels.
class ChosenKernels {
 public:
  explicit ChosenKernels(const cpu::QuantizedKernels& kernels) { table_.quantized = &kernels; }

 private:
  cpu::KernelTable table_ = cpu::kernels();
  cpu::KernelOverride override_{table_};
};

class QuantizedLinearTest : public testing::TestWithParam<QuantFormat> {};

TEST_P(QuantizedLinearTest, ChannelsComeBackAsTheyWereStored) {
  Fixture fixture;
  for (const int64_t in_features : {1, 32, 45, 256, 300, 1024}) {
    const RandomMatrix random(fixture, GetParam(), 37, in_features, 5);
    for (int64_t n = 0; n < 37; ++n) {
      const QuantizedChannel& stored = random.channels[static_cast<size_t>(n)];
      const QuantizedChannel read = unpack_channel(random.matrix, n);
      EXPECT_EQ(read.quants, stored.quants);
      EXPECT_EQ(read.scale, stored.scale);
      EXPECT_EQ(read.scales, stored.scales);
      EXPECT_EQ(read.minimums, stored.minimums);
      EXPECT_EQ(read.sub_scales, stored.sub_scales);
      EXPECT_EQ(read.sub_minimums, stored.sub_minimums);
    }
  }
}

TEST_P(QuantizedLinearTest, MatchesFloat64OfItsBytesWithEveryInstructionSet) {
  for (const cpu::QuantizedKernels* const kernels : cpu::all_quantized_kernels()) {
    const ChosenKernels chosen(*kernels);
    Fixture fixture;
    uint32_t seed = 1;
    for (const int64_t out_features : {1, 16, 33, 100}) {
      for (const int64_t in_features : {1, 4, 31, 32, 100, 256, 577, 1536}) {
        const RandomMatrix random(fixture, GetParam(), out_features, in_features, ++seed);
        const int64_t run = GetParam() == QuantFormat::kInt8 ? in_features : kQuantGroup;
        for (const int64_t rows : {1, 2, 5, 13}) {
          const Tensor x = rows_of(rows, in_features, ++seed);
          const Tensor bias = rows % 2 == 0 ? Tensor() : rows_of(1, out_features, ++seed);
          const Tensor out = product(fixture, x, random.matrix, bias);
          for (int64_t r = 0; r < rows; ++r) {
            const std::vector<float> bytes = as_bytes(x.row<float>(r), in_features, run);
            for (int64_t n = 0; n < out_features; ++n) {
              double sum = bias.defined() ? bias.data<float>()[n] : 0;
              double magnitude = std::abs(sum);
              double rounding = 0;  // what rounding the row to bytes may move the result by
              double exact = sum;
              for (int64_t k = 0; k < in_features; ++k) {
                const auto at = static_cast<size_t>(k);
                const double weight = random.weights[static_cast<size_t>(n * in_features) + at];
                sum += weight * bytes[at];
                exact += weight * x.row<float>(r)[k];
                magnitude += std::abs(weight * bytes[at]);
                rounding += std::abs(weight * (bytes[at] - x.row<float>(r)[k]));
              }
              // Minimums are added apart, so a group's sum may be larger than what is left of it.
              const double bound = (magnitude + 1) * 1e-5;
              ASSERT_NEAR(out.row<float>(r)[n], sum, bound) << rows << "x" << out_features << "x" << in_features;
              ASSERT_NEAR(out.row<float>(r)[n], exact, bound + rounding);
            }
          }
        }
      }
    }
  }
}

TEST_P(QuantizedLinearTest, ARowsBitsDoNotDependOnItsCompany) {
  constexpr int64_t kRows = 2500;
  for (const cpu::QuantizedKernels* const kernels : cpu::all_quantized_kernels()) {
    const ChosenKernels chosen(*kernels);
    const Tensor x = rows_of(kRows, 290, 8);
    Fixture two(2);
    const RandomMatrix random(two, GetParam(), 211, 290, 7);
    const Tensor together = product(two, x, random.matrix);
    for (const int threads : {1, 3}) {
      Fixture fixture(threads);
      int64_t row = 0;
      for (int64_t rows = 1; rows <= 70; ++rows) {
        const Tensor out = product(fixture, x.slice_rows(row, rows), random.matrix);
        ASSERT_TRUE(same_rows(out, 0, together, row, rows)) << rows << " rows, " << threads << " threads";
        row += rows;
      }
    }
  }
}

TEST_P(QuantizedLinearTest, InstructionSetsAgree) {
  const std::vector<const cpu::QuantizedKernels*> all = cpu::all_quantized_kernels();
  Fixture fixture;
  const RandomMatrix random(fixture, GetParam(), 83, 700, 3);
  const Tensor x = rows_of(29, 700, 4);
  std::vector<Tensor> results;
  for (const cpu::QuantizedKernels* const kernels : all) {
    const ChosenKernels chosen(*kernels);
    results.push_back(product(fixture, x, random.matrix));
  }
  // generic has no fused multiply-add, which the sums over groups use.
  const size_t first = GetParam() == QuantFormat::kInt8 ? 0 : 1;
  for (size_t i = first + 1; i < results.size(); ++i) EXPECT_TRUE(same_rows(results[first], 0, results[i], 0, 29)) << i;
}

TEST_P(QuantizedLinearTest, PartsAndAdditionsAreThoseOfSingleProducts) {
  Fixture fixture;
  const Tensor x = rows_of(9, 96, 1);
  for (const int64_t first : {48, 50}) {
    const RandomMatrix a(fixture, GetParam(), first, 96, 2);
    const RandomMatrix b(fixture, GetParam(), 40, 96, 3);
    const Weights addition(first + 40, 96, DType::kFloat32, 4);
    const PackedMatrix packed_addition = packed(fixture, addition, DType::kFloat32);
    const Tensor bias = rows_of(1, first + 40, 5);
    Tensor expected = Tensor::empty(9, first + 40, DType::kFloat32);
    for (int64_t r = 0; r < 9; ++r) {
      const Tensor left = product(fixture, x, a.matrix, bias.slice_cols(0, first));
      const Tensor right = product(fixture, x, b.matrix, bias.slice_cols(first, 40));
      std::copy_n(left.row<float>(r), first, expected.row<float>(r));
      std::copy_n(right.row<float>(r), 40, expected.row<float>(r) + first);
    }
    LinearPart part;
    part.x = x.slice_rows(2, 5);
    part.weight = &packed_addition;
    part.accumulate = true;
    part.scale = 0.5f;
    part.out = expected.slice_rows(2, 5);
    grouped_linear(fixture.context, {&part, 1});
    Tensor out = Tensor::empty(9, first + 40, DType::kFloat32);
    const QuantizedPart parts[] = {{&a.matrix, 0}, {&b.matrix, first}};
    part.out = out.slice_rows(2, 5);
    quantized_linear(fixture.context, x, parts, bias, out, {&part, 1});
    EXPECT_TRUE(same_rows(out, 0, expected, 0, 9));
  }
}

TEST_P(QuantizedLinearTest, WhatIsNotFiniteStaysInItsRow) {
  Fixture fixture;
  const RandomMatrix random(fixture, GetParam(), 20, 64, 2);
  Tensor x = rows_of(3, 64, 1);
  const Tensor clean = product(fixture, x, random.matrix);
  x.row<float>(1)[5] = std::numeric_limits<float>::infinity();
  x.row<float>(2)[63] = std::numeric_limits<float>::quiet_NaN();
  const Tensor out = product(fixture, x, random.matrix);
  EXPECT_TRUE(same_rows(out, 0, clean, 0, 1));
  for (const int64_t r : {1, 2}) {
    for (int64_t n = 0; n < 20; ++n) EXPECT_TRUE(std::isnan(out.row<float>(r)[n]));
  }
}

TEST_P(QuantizedLinearTest, ZeroRowsAreZero) {
  Fixture fixture;
  const RandomMatrix random(fixture, GetParam(), 20, 64, 2);
  Tensor x = Tensor::empty(2, 64, DType::kFloat32);
  std::fill_n(x.data<float>(), 64, 0.0f);
  std::fill_n(x.row<float>(1), 64, 1e-35f);
  const Tensor out = product(fixture, x, random.matrix);
  for (int64_t i = 0; i < out.size(); ++i) EXPECT_EQ(out.data<float>()[i], 0.0f);
}

TEST_P(QuantizedLinearTest, GathersChannelsAndZeros) {
  Fixture fixture;
  const RandomMatrix random(fixture, GetParam(), 20, 100, 2);
  Tensor ids = Tensor::empty(1, 4, DType::kInt32);
  for (int i = 0; i < 4; ++i) ids.data<int32_t>()[i] = std::vector<int32_t>{22, 5, -1, 2}[static_cast<size_t>(i)];
  Tensor out = Tensor::empty(4, 100, DType::kFloat32);
  const QuantizedPart part{&random.matrix, 3};
  gather_channels(fixture.context, {&part, 1}, ids, out);
  for (int64_t k = 0; k < 100; ++k) {
    EXPECT_EQ(out.row<float>(0)[k], random.weights[static_cast<size_t>(19 * 100 + k)]);
    EXPECT_EQ(out.row<float>(1)[k], random.weights[static_cast<size_t>(2 * 100 + k)]);
    EXPECT_EQ(out.row<float>(2)[k], 0.0f);
    EXPECT_EQ(out.row<float>(3)[k], 0.0f);
  }
}

std::string format_name(const testing::TestParamInfo<QuantFormat>& info) {
  constexpr const char* kNames[] = {"int8", "q8", "q4", "q4_min", "q4_k", "q6_k"};
  return kNames[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantizedLinearTest, testing::ValuesIn(kFormats), format_name);

}  // namespace
}  // namespace quire::ops
