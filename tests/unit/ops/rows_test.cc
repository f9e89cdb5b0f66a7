// Norms, rotary embedding and activations of every ISA against float64, odd sizes and row strides included.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "ops/cpu/backend.h"
#include "ops/op_fixture.h"

namespace quire::ops {
namespace {

constexpr int64_t kSizes[] = {1, 3, 7, 8, 16, 31, 64, 100, 576, 577, 4096};

/// Fails unless |actual - expected| <= relative * |expected| + absolute, NaN included.
void expect_near(double actual, double expected, double relative, double absolute) {
  EXPECT_TRUE(std::fabs(actual - expected) <= relative * std::fabs(expected) + absolute)
      << actual << " instead of " << expected;
}

TEST(RmsNorm, AgreesWithFloat64) {
  constexpr float kEpsilon = 1e-5f;
  std::mt19937 random(1);
  for (const int64_t n : kSizes) {
    const Tensor x = random_tensor(3, n, random, 3.0f, 5);
    const Tensor weight = random_tensor(1, n, random);
    for (const cpu::KernelTable* table : available_tables()) {
      TestContext context;
      Tensor out = Tensor::empty(3, n, DType::kFloat32);
      cpu::rms_norm(*table, context.get(), x, weight, kEpsilon, out);
      for (int64_t row = 0; row < 3; ++row) {
        double mean = 0.0;
        for (int64_t i = 0; i < n; ++i) mean += std::pow(static_cast<double>(x.row<float>(row)[i]), 2) / n;
        for (int64_t i = 0; i < n; ++i) {
          const double expected = x.row<float>(row)[i] / std::sqrt(mean + kEpsilon) * weight.data<float>()[i];
          expect_near(out.row<float>(row)[i], expected, 1e-6, 0);
        }
      }
    }
  }
}

TEST(RmsNorm, AddsTheResidualFirstAndMayWorkInPlace) {
  std::mt19937 random(2);
  const Tensor x = random_tensor(5, 70, random);
  const Tensor before = random_tensor(5, 70, random);
  const Tensor weight = random_tensor(1, 70, random);
  for (const cpu::KernelTable* table : available_tables()) {
    TestContext context;
    Tensor sum = copy_of(before);
    cpu::add(*table, context.get(), x, sum);
    EXPECT_EQ(sum.row<float>(4)[69], x.row<float>(4)[69] + before.row<float>(4)[69]);
    Tensor residual = copy_of(before);
    Tensor out = Tensor::empty(5, 70, DType::kFloat32);
    cpu::add_rms_norm(*table, context.get(), x, residual, weight, 1e-6f, out);
    EXPECT_TRUE(same_values(residual, sum));
    cpu::rms_norm(*table, context.get(), sum, weight, 1e-6f, sum);
    EXPECT_TRUE(same_values(out, sum));
  }
}

TEST(Scale, MultipliesEachValueOnce) {
  std::mt19937 random(4);
  for (const int64_t n : kSizes) {
    const Tensor x = random_tensor(3, n, random, 3.0f, 5);
    for (const cpu::KernelTable* table : available_tables()) {
      TestContext context;
      Tensor scaled = copy_of(x);
      cpu::scale(*table, context.get(), 0.22f, scaled);
      for (int64_t row = 0; row < 3; ++row) {
        for (int64_t i = 0; i < n; ++i) EXPECT_EQ(scaled.row<float>(row)[i], x.row<float>(row)[i] * 0.22f);
      }
    }
  }
}

TEST(RmsNorm, OfHeadsNormsEachByItself) {
  std::mt19937 random(3);
  const Tensor x = random_tensor(4, 3 * 20, random, 2.0f, 11);
  const Tensor weight = random_tensor(1, 20, random);
  for (const cpu::KernelTable* table : available_tables()) {
    TestContext context;
    Tensor heads = copy_of(x);
    cpu::rms_norm_heads(*table, context.get(), heads, 3, 20, weight, 1e-6f);
    for (int64_t head = 0; head < 3; ++head) {
      Tensor expected = Tensor::empty(4, 20, DType::kFloat32);
      cpu::rms_norm(*table, context.get(), x.slice_cols(head * 20, 20), weight, 1e-6f, expected);
      EXPECT_TRUE(same_values(heads.slice_cols(head * 20, 20), expected)) << table->name;
    }
  }
}

TEST(RmsNorm, ARowIsTheSameAloneOrAmongManyAndForAnyThreads) {
  std::mt19937 random(4);
  const Tensor x = random_tensor(300, 577, random);
  const Tensor weight = random_tensor(1, 577, random);
  for (const cpu::KernelTable* table : available_tables()) {
    TestContext one;
    TestContext two(2);
    Tensor many = Tensor::empty(300, 577, DType::kFloat32);
    cpu::rms_norm(*table, two.get(), x, weight, 1e-6f, many);
    for (const int64_t row : {0, 150, 299}) {
      Tensor alone = Tensor::empty(1, 577, DType::kFloat32);
      cpu::rms_norm(*table, one.get(), x.slice_rows(row, 1), weight, 1e-6f, alone);
      EXPECT_TRUE(same_values(alone, many.slice_rows(row, 1)));
    }
  }
}

TEST(LayerNorm, AgreesWithFloat64) {
  constexpr float kEpsilon = 1e-5f;
  std::mt19937 random(11);
  for (const int64_t n : kSizes) {
    Tensor x = random_tensor(3, n, random, 3.0f, 5);
    // Far from zero, where only deviations from the mean keep their digits.
    for (int64_t i = 0; i < n; ++i) x.row<float>(2)[i] += 1000.0f;
    const Tensor weight = random_tensor(1, n, random);
    for (const Tensor& bias : {random_tensor(1, n, random), Tensor()}) {
      for (const cpu::KernelTable* table : available_tables()) {
        TestContext context;
        Tensor out = Tensor::empty(3, n, DType::kFloat32);
        cpu::layer_norm(*table, context.get(), x, weight, bias, kEpsilon, out);
        for (int64_t row = 0; row < 3; ++row) {
          const float* const values = x.row<float>(row);
          double mean = 0.0, variance = 0.0;
          for (int64_t i = 0; i < n; ++i) mean += static_cast<double>(values[i]) / n;
          for (int64_t i = 0; i < n; ++i) variance += std::pow(values[i] - mean, 2) / n;
          for (int64_t i = 0; i < n; ++i) {
            const double normed = (values[i] - mean) / std::sqrt(variance + kEpsilon) * weight.data<float>()[i];
            const double expected = normed + (bias.defined() ? bias.data<float>()[i] : 0.0f);
            // The mean of the shifted row is rounded to float32: an error of 2^-14 in values of size 3.
            expect_near(out.row<float>(row)[i], expected, 2e-6, row == 2 ? 4e-4 : 4e-6);
          }
        }
        Tensor in_place = copy_of(x);
        cpu::layer_norm(*table, context.get(), in_place, weight, bias, kEpsilon, in_place);
        EXPECT_TRUE(same_values(in_place, out)) << table->name;
      }
    }
  }
}

TEST(LayerNorm, ARowIsTheSameAloneOrAmongManyAndForAnyThreads) {
  std::mt19937 random(12);
  const Tensor x = random_tensor(300, 577, random);
  const Tensor weight = random_tensor(1, 577, random);
  for (const cpu::KernelTable* table : available_tables()) {
    TestContext one;
    TestContext two(2);
    Tensor many = Tensor::empty(300, 577, DType::kFloat32);
    cpu::layer_norm(*table, two.get(), x, weight, weight, 1e-6f, many);
    for (const int64_t row : {0, 150, 299}) {
      Tensor alone = Tensor::empty(1, 577, DType::kFloat32);
      cpu::layer_norm(*table, one.get(), x.slice_rows(row, 1), weight, weight, 1e-6f, alone);
      EXPECT_TRUE(same_values(alone, many.slice_rows(row, 1)));
    }
  }
}

TEST(Rotary, RotatesTheFirstFeaturesOfEachHead) {
  std::mt19937 random(5);
  for (const auto& [head_dim, rotary_dim] : {std::pair<int64_t, int64_t>{64, 64}, {80, 32}, {14, 14}, {6, 2}}) {
    const Tensor cos_sin = random_tensor(50, rotary_dim, random);
    const Tensor x = random_tensor(3, 2 * head_dim, random, 1.0f, 9);
    Tensor positions = Tensor::empty(1, 3, DType::kInt32);
    const int32_t at[] = {49, 0, 7};
    std::copy_n(at, 3, positions.data<int32_t>());
    for (const cpu::KernelTable* table : available_tables()) {
      TestContext context;
      Tensor rotated = copy_of(x);
      cpu::rotary_embedding(*table, context.get(), positions, cos_sin, 2, head_dim, rotated);
      const int64_t half = rotary_dim / 2;
      for (int64_t row = 0; row < 3; ++row) {
        for (int64_t i = 0; i < 2 * head_dim; ++i) {
          const float* const head = x.row<float>(row) + i / head_dim * head_dim;
          const float* const angles = cos_sin.row<float>(at[row]);
          const int64_t j = i % head_dim;
          double expected = head[j];
          if (j < half) {
            expected =
                static_cast<double>(head[j]) * angles[j] - static_cast<double>(head[j + half]) * angles[half + j];
          } else if (j < rotary_dim) {
            expected =
                static_cast<double>(head[j]) * angles[j - half] + static_cast<double>(head[j - half]) * angles[j];
          }
          expect_near(rotated.row<float>(row)[i], expected, 1e-6, 1e-6);
        }
      }
    }
  }
}

TEST(Rotary, RefusesPositionsBeyondTheTable) {
  std::mt19937 random(6);
  const Tensor cos_sin = random_tensor(5, 8, random);
  Tensor x = random_tensor(1, 8, random);
  Tensor positions = Tensor::empty(1, 1, DType::kInt32);
  TestContext context;
  for (const int32_t position : {-1, 5}) {
    positions.data<int32_t>()[0] = position;
    EXPECT_THROW(rotary_embedding(context.get(), positions, cos_sin, 1, 8, x), CheckFailure);
  }
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

struct ActivationCase {
  Activation activation;
  std::function<double(double)> function;
};

std::vector<ActivationCase> activation_cases() {
  return {{Activation::kSilu, [](double x) { return x / (1.0 + std::exp(-x)); }},
          {Activation::kGelu, [](double x) { return x * normal_cdf(x); }},
          {Activation::kGeluTanh,
           [](double x) {
             const double u = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
             return x / (1.0 + std::exp(-2.0 * u));
           }},
          {Activation::kRelu, [](double x) { return x < 0.0 ? 0.0 : x; }}};
}

TEST(GatedActivation, AgreesWithFloat64) {
  std::mt19937 random(7);
  for (const int64_t n : {1, 5, 8, 100, 1536}) {
    Tensor gate_up = random_tensor(3, 2 * n, random, 3.0f, 7);
    for (int64_t i = 0; i < n; ++i) gate_up.row<float>(1)[i] *= 1e-3f;
    for (const ActivationCase& expected : activation_cases()) {
      for (const cpu::KernelTable* table : available_tables()) {
        TestContext context;
        Tensor out = Tensor::empty(3, n, DType::kFloat32);
        cpu::gated_activation(*table, context.get(), expected.activation, gate_up, out);
        for (int64_t row = 0; row < 3; ++row) {
          for (int64_t i = 0; i < n; ++i) {
            const float* const gate = gate_up.row<float>(row);
            expect_near(out.row<float>(row)[i], expected.function(gate[i]) * gate[n + i], 2e-6, 1e-9);
          }
        }
      }
    }
  }
}

TEST(Activation, IsTheGatedOneWithAGateOfOnes) {
  std::mt19937 random(13);
  for (const int64_t n : {1, 5, 8, 100, 1536}) {
    const Tensor gate_up = random_tensor(3, 2 * n, random, 3.0f, 7);
    const Tensor x = gate_up.slice_cols(0, n);
    for (int64_t row = 0; row < 3; ++row) std::fill_n(gate_up.row<float>(row) + n, n, 1.0f);
    for (const ActivationCase& expected : activation_cases()) {
      for (const cpu::KernelTable* table : available_tables()) {
        TestContext context;
        Tensor gated = Tensor::empty(3, n, DType::kFloat32);
        cpu::gated_activation(*table, context.get(), expected.activation, gate_up, gated);
        Tensor out = copy_of(x);
        cpu::activation(*table, context.get(), expected.activation, out, out);
        EXPECT_TRUE(same_values(out, gated)) << table->name;
      }
    }
  }
}

TEST(GatedActivation, ExtremesAreFiniteAndNanIsKept) {
  const float extremes[] = {-1e30f, -200.0f, -90.0f, -0.0f, 0.0f, 90.0f, 1e30f};
  Tensor gate_up = Tensor::empty(1, 16, DType::kFloat32);
  for (int64_t i = 0; i < 16; ++i) gate_up.data<float>()[i] = 1.0f;
  std::copy(std::begin(extremes), std::end(extremes), gate_up.data<float>());
  gate_up.data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  for (const ActivationCase& expected : activation_cases()) {
    for (const cpu::KernelTable* table : available_tables()) {
      TestContext context;
      Tensor out = Tensor::empty(1, 8, DType::kFloat32);
      cpu::gated_activation(*table, context.get(), expected.activation, gate_up, out);
      for (int64_t i = 1; i < 7; ++i)
        expect_near(out.data<float>()[i], extremes[i] < 0 ? 0.0 : extremes[i], 1e-6, 1e-30);
      EXPECT_TRUE(std::isfinite(out.data<float>()[0]));
      EXPECT_TRUE(std::isnan(out.data<float>()[7])) << table->name;
    }
  }
}

}  // namespace
}  // namespace quire::ops
