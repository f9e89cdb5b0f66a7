// Rows and columns of listed tokens.
#include "ops/listed_tokens.h"

#include <gtest/gtest.h>

#include "ops/packed_fixture.h"

namespace quire::ops {
namespace {

Tensor numbers(const std::vector<int32_t>& values) {
  Tensor tensor = Tensor::empty(1, static_cast<int64_t>(values.size()), DType::kInt32);
  std::copy(values.begin(), values.end(), tensor.data<int32_t>());
  return tensor;
}

TEST(ListedTokens, ReplaceOnlyTheirRows) {
  Fixture fixture;
  const Weights weights(3, 20, DType::kFloat32, 1);
  const PackedMatrix table = packed(fixture, weights, DType::kFloat32);
  Tensor out = Tensor::empty(5, 20, DType::kFloat32);
  std::fill_n(out.data<float>(), out.size(), 7.0f);
  gather_listed_rows(fixture.context, numbers({9, 2, 4, 11, 10}), numbers({2, 9, 11}), table, out);
  const int row_of[] = {1, 0, -1, 2, -1};
  for (int64_t i = 0; i < 5; ++i) {
    for (int64_t k = 0; k < 20; ++k) {
      const float expected = row_of[i] < 0 ? 7.0f : weights.values[static_cast<size_t>(row_of[i] * 20 + k)];
      EXPECT_EQ(out.row<float>(i)[k], expected) << i;
    }
  }
}

TEST(ListedTokens, ReplaceOnlyTheirColumns) {
  Fixture fixture;
  Tensor x = Tensor::empty(2, 2, DType::kFloat32);
  for (int i = 0; i < 4; ++i) x.data<float>()[i] = static_cast<float>(i + 1);
  Tensor out = Tensor::empty(2, 4, DType::kFloat32);
  std::fill_n(out.data<float>(), out.size(), 0.0f);
  scatter_columns(fixture.context, x, numbers({1, 3}), out);
  const float expected[] = {0, 1, 0, 2, 0, 3, 0, 4};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(out.data<float>()[i], expected[i]);
  EXPECT_THROW(scatter_columns(fixture.context, x, numbers({1, 4}), out), CheckFailure);
}

TEST(ListedTokens, LocalIdsCountFromTheFirstRowOfARank) {
  Fixture fixture;
  Tensor out = Tensor::empty(1, 6, DType::kInt32);
  local_ids(fixture.context, numbers({9, 10, 11, 14, 15, 0}), 10, 5, out);
  const int32_t expected[] = {-1, 0, 1, 4, -1, -1};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out.data<int32_t>()[i], expected[i]) << i;
}

}  // namespace
}  // namespace quire::ops
