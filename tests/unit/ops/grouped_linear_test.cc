// Grouped products: against float64 sums, and bit for bit against the same parts alone, in other company and on other
// numbers of threads. Every test runs with each ISA of this CPU.
#include "ops/grouped_linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "ops/packed_fixture.h"

namespace quire::ops {
namespace {

/// Parts of random sizes over the rows of one x and one out, with rows of no part between them, as a batch has them.
class Group {
 public:
  Group(Fixture& fixture, uint32_t seed, DType dtype, bool accumulate) : random_(seed) {
    const int count = below(6) + 1;
    for (int i = 0; i < count; ++i) add(fixture, dtype, accumulate);
    x_ = memory_for(rows_, widest_in_ + 3);
    before_ = memory_for(rows_, widest_out_ + 5);
  }

  /// All parts over `out`.
  std::vector<LinearPart> parts(const Tensor& out) const {
    std::vector<LinearPart> parts;
    for (const Shape& shape : shapes_) {
      LinearPart part;
      part.x = x_.slice_rows(shape.row, shape.rows).slice_cols(0, shape.in);
      part.weight = shape.in > 0 ? &shape.matrix : nullptr;
      part.out = out.slice_rows(shape.row, shape.rows).slice_cols(shape.column, shape.out);
      part.accumulate = shape.accumulate;
      part.scale = shape.scale;
      part.gain = shape.gain;
      part.bias = shape.bias;
      parts.push_back(part);
    }
    return parts;
  }
  Tensor fresh_out() const {
    Tensor out = Tensor::empty(before_.rows(), before_.cols(), DType::kFloat32);
    std::copy_n(before_.data<float>(), before_.size(), out.data<float>());
    return out;
  }

  void expect_float64(const Tensor& out, cpu::Isa isa, DType dtype) const {
    Tensor rest = fresh_out();
    for (const Shape& shape : shapes_) {
      for (int64_t r = shape.row; r < shape.row + shape.rows; ++r) {
        for (int64_t n = 0; n < shape.out; ++n) {
          double sum = 0;
          double magnitude = 0;
          for (int64_t k = 0; k < shape.in; ++k) {
            const double product = static_cast<double>(as_multiplied(x_.row<float>(r)[k], isa, dtype, shape.in)) *
                                   static_cast<double>(shape.weights->values[static_cast<size_t>(n * shape.in + k)]);
            sum += product;
            magnitude += std::abs(product);
          }
          float& cell = rest.row<float>(r)[shape.column + n];
          if (shape.accumulate) {
            const double gain = shape.gain.defined() ? static_cast<double>(shape.gain.data<float>()[n]) : 1.0;
            sum = gain * (static_cast<double>(cell) + static_cast<double>(shape.scale) * sum);
            magnitude = std::abs(gain) * (std::abs(static_cast<double>(cell)) + magnitude * 3);
          }
          if (shape.bias.defined()) sum += static_cast<double>(shape.bias.data<float>()[n]);
          const double bound = (magnitude + 8) * static_cast<double>(shape.in + 4) * std::ldexp(1.0, -24);
          ASSERT_NEAR(out.row<float>(r)[shape.column + n], sum, bound) << "row " << r << " channel " << n;
          cell = out.row<float>(r)[shape.column + n];
        }
      }
    }
    // What belongs to no part is as it was.
    ASSERT_EQ(std::memcmp(out.raw(), rest.raw(), static_cast<size_t>(out.size()) * sizeof(float)), 0);
  }

 private:
  struct Shape {
    int64_t row, rows, in, out, column;
    bool accumulate;
    float scale;
    std::shared_ptr<Weights> weights;
    PackedMatrix matrix;
    Tensor gain, bias;
  };

  int below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }
  Tensor vector(int64_t size) {
    Tensor values = Tensor::empty(1, size, DType::kFloat32);
    const std::vector<float> random = random_values(size, static_cast<uint32_t>(random_()));
    std::copy_n(random.data(), size, values.data<float>());
    return values;
  }
  Tensor memory_for(int64_t rows, int64_t cols) { return vector(rows * cols).reshape(rows, cols); }

  void add(Fixture& fixture, DType dtype, bool accumulate) {
    Shape shape{};
    shape.row = rows_ + below(3);
    shape.rows = below(3) == 0 ? 1 + below(90) : 1 + below(14);
    rows_ = shape.row + shape.rows + below(2);
    shape.accumulate = accumulate;
    shape.scale = static_cast<float>(below(5)) * 0.75f - 1.0f;
    // One row block may hold the pieces of a layer side by side.
    const int pieces = 1 + below(3);
    for (int piece = 0; piece < pieces; ++piece) {
      shape.in = accumulate && below(6) == 0 ? 0 : 1 + below(below(2) == 0 ? 40 : 700);
      shape.out = 1 + below(150);
      if (shape.in > 0) {
        shape.weights = std::make_shared<Weights>(shape.out, shape.in, dtype, static_cast<uint32_t>(random_()));
        shape.matrix = packed(fixture, *shape.weights, dtype);
      }
      shape.gain = accumulate && below(2) == 0 ? vector(shape.out) : Tensor();
      shape.bias = below(2) == 0 ? vector(shape.out) : Tensor();
      widest_in_ = std::max(widest_in_, shape.in);
      widest_out_ = std::max(widest_out_, shape.column + shape.out);
      shapes_.push_back(shape);
      shape.column += shape.out + below(3);
    }
  }

  std::mt19937 random_;
  std::vector<Shape> shapes_;
  int64_t rows_ = 0, widest_in_ = 1, widest_out_ = 1;
  Tensor x_, before_;
};

class GroupedLinearTest : public testing::TestWithParam<cpu::Isa> {
 protected:
  cpu::KernelOverride kernels_{*cpu::kernels_for(GetParam())};
};

TEST_P(GroupedLinearTest, MatchesFloat64AndLeavesTheRestAlone) {
  Fixture fixture;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const Group group(fixture, seed, dtype, seed % 3 != 0);
      const Tensor out = group.fresh_out();
      grouped_linear(fixture.context, group.parts(out));
      group.expect_float64(out, GetParam(), dtype);
    }
  }
}

TEST_P(GroupedLinearTest, IsBitForBitTheSameInAnyCompanyAndOnAnyThreads) {
  Fixture fixture(1);
  Fixture threaded(3);
  for (uint32_t seed = 100; seed < 140; ++seed) {
    const Group group(fixture, seed, seed % 2 == 0 ? DType::kBFloat16 : DType::kFloat32, seed % 3 != 0);
    const Tensor together = group.fresh_out();
    grouped_linear(threaded.context, group.parts(together));
    const Tensor alone = group.fresh_out();
    for (const LinearPart& part : group.parts(alone)) {
      for (int64_t row = 0; row < part.out.rows();) {  // row by row, or a few at a time
        const int64_t rows = std::min<int64_t>(1 + (row * 7 + seed) % 5, part.out.rows() - row);
        LinearPart some = part;
        some.x = part.x.slice_rows(row, rows);
        some.out = part.out.slice_rows(row, rows);
        grouped_linear(fixture.context, {&some, 1});
        row += rows;
      }
    }
    ASSERT_EQ(std::memcmp(alone.raw(), together.raw(), static_cast<size_t>(alone.size()) * sizeof(float)), 0) << seed;
  }
}

TEST_P(GroupedLinearTest, AgreesWithLinear) {
  Fixture fixture;
  const Weights weights(203, 577, DType::kBFloat16, 5);
  const PackedMatrix matrix = packed(fixture, weights, DType::kBFloat16);
  Tensor x = Tensor::empty(31, 577, DType::kFloat32);
  const std::vector<float> values = random_values(x.size(), 6);
  std::copy(values.begin(), values.end(), x.data<float>());
  Tensor expected = Tensor::empty(31, 203, DType::kFloat32);
  linear(fixture.context, x, matrix, Tensor(), expected);
  LinearPart part;
  part.x = x;
  part.weight = &matrix;
  part.out = Tensor::empty(31, 203, DType::kFloat32);
  grouped_linear(fixture.context, {&part, 1});
  EXPECT_EQ(std::memcmp(part.out.raw(), expected.raw(), static_cast<size_t>(expected.size()) * sizeof(float)), 0);
}

// Whether the parts' columns begin a panel of the output or not, and for few rows as for many.
TEST_P(GroupedLinearTest, PartsOfALinearGiveTheSameBitsAsAGroupAfterIt) {
  constexpr int64_t kIn = 130;
  constexpr int64_t kOut = 203;
  constexpr int64_t kRank = 10;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const int64_t first_column : {64, 60}) {
      for (const int64_t rows : {1, 17, 31, 400}) {
        Fixture fixture(3);
        const PackedMatrix matrix = packed(fixture, Weights(kOut, kIn, dtype, 5), dtype);
        const PackedMatrix first = packed(fixture, Weights(first_column, kRank, dtype, 6), dtype);
        const PackedMatrix second = packed(fixture, Weights(kOut - first_column, kRank, dtype, 7), dtype);
        const auto random = [&](int64_t cols, uint32_t seed) {
          Tensor tensor = Tensor::empty(rows, cols, DType::kFloat32);
          const std::vector<float> values = random_values(tensor.size(), seed);
          std::copy(values.begin(), values.end(), tensor.data<float>());
          return tensor;
        };
        const Tensor x = random(kIn, 8);
        const Tensor shrunk = random(2 * kRank, 9);
        const Tensor bias = random(kOut, 10).slice_rows(0, 1);
        const auto parts_of = [&](const Tensor& out) {
          std::vector<LinearPart> parts;
          // The first rows have one adapter, the next none, the others another one with a gain and an offset.
          const int64_t split = rows / 3;
          const auto add = [&](int64_t row, int64_t count, int64_t column, const PackedMatrix* weight) {
            if (count == 0) return;
            LinearPart part;
            const int64_t columns = weight != nullptr ? weight->out_features : kOut - column;
            if (weight != nullptr) part.x = shrunk.slice_rows(row, count).slice_cols(column == 0 ? 0 : kRank, kRank);
            part.weight = weight;
            part.out = out.slice_rows(row, count).slice_cols(column, columns);
            part.accumulate = true;
            part.scale = 0.75f;
            if (row > 0) part.gain = part.bias = bias.slice_cols(column, columns);
            parts.push_back(std::move(part));
          };
          add(0, split, 0, &first);
          add(0, split, first_column, &second);
          const int64_t begin = split + (rows > 2 ? 1 : 0);
          add(begin, rows - begin, 0, &first);
          add(begin, rows - begin, first_column, rows % 2 == 0 ? nullptr : &second);
          return parts;
        };
        Tensor expected = Tensor::empty(rows, kOut, DType::kFloat32);
        linear(fixture.context, x, matrix, bias, expected);
        grouped_linear(fixture.context, parts_of(expected));
        Tensor out = Tensor::empty(rows, kOut, DType::kFloat32);
        linear(fixture.context, x, matrix, bias, out, parts_of(out));
        ASSERT_EQ(std::memcmp(out.raw(), expected.raw(), static_cast<size_t>(out.size()) * sizeof(float)), 0)
            << rows << " rows, columns from " << first_column;
      }
    }
  }
}

TEST_P(GroupedLinearTest, RefusesWrongShapes) {
  Fixture fixture;
  const Weights weights(16, 8, DType::kFloat32, 3);
  const PackedMatrix matrix = packed(fixture, weights, DType::kFloat32);
  LinearPart part;
  part.weight = &matrix;
  part.x = Tensor::empty(2, 9, DType::kFloat32);
  part.out = Tensor::empty(2, 16, DType::kFloat32);
  EXPECT_THROW(grouped_linear(fixture.context, {&part, 1}), CheckFailure);
  part.x = Tensor::empty(2, 8, DType::kFloat32);
  part.gain = Tensor::empty(1, 16, DType::kFloat32);
  EXPECT_THROW(grouped_linear(fixture.context, {&part, 1}), CheckFailure) << "a gain only where it adds";
}

INSTANTIATE_TEST_SUITE_P(EachIsa, GroupedLinearTest, testing::ValuesIn(offered_isas()), isa_name);

}  // namespace
}  // namespace quire::ops
