// Weights multiplied as a GGUF file stores them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "checkpoint/gguf_dequantize.h"
#include "quantization/gguf_channel.h"
#include "quantization/linear_method.h"
#include "tensor/convert.h"
#include "tensor/workspace.h"

namespace quire {
namespace {

const GgmlTypeInfo& type_of(GgmlType type) { return *find_ggml_type(static_cast<uint32_t>(type)); }

/// Rows of blocks of any bytes, but for the float16 values, which are small.
std::vector<std::byte> random_rows(GgmlType type, int64_t rows, int64_t cols, unsigned seed) {
  const GgmlTypeInfo& info = type_of(type);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.01f);
  std::vector<std::byte> bytes(static_cast<size_t>(rows * cols / info.block_size * info.block_bytes));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 255);
  const size_t first = type == GgmlType::kQ6_K ? 208 : 0;
  const bool two = type == GgmlType::kQ4_1 || type == GgmlType::kQ4_K;
  for (size_t block = 0; block < bytes.size(); block += info.block_bytes) {
    for (size_t i = 0; i < (two ? 2U : 1U); ++i) {
      const uint16_t half = float_to_float16(normal(random));
      std::memcpy(bytes.data() + block + first + 2 * i, &half, sizeof(half));
    }
  }
  return bytes;
}

constexpr GgmlType kTypes[] = {GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kQ8_0, GgmlType::kQ4_K, GgmlType::kQ6_K};

TEST(GgufChannelTest, StandsForTheValuesOfTheFile) {
  for (const GgmlType type : kTypes) {
    const GgmlTypeInfo& info = type_of(type);
    const std::vector<std::byte> row = random_rows(type, 1, 1024, 7);
    std::vector<float> expected(1024);
    gguf_dequantize(info, row.data(), 1024, expected.data());
    for (const int64_t first : {0, 256}) {
      std::vector<float> values(512);
      ops::dequantize_channel(read_channel(info, row.data(), first, 512), *format_of(info), 512, values.data());
      for (int64_t k = 0; k < 512; ++k) {
        ASSERT_EQ(values[static_cast<size_t>(k)], expected[static_cast<size_t>(first + k)]) << info.name << " " << k;
      }
    }
  }
}

TEST(GgufChannelTest, OtherTypesHaveNoFormat) {
  for (const GgmlType type : {GgmlType::kQ5_0, GgmlType::kQ5_K, GgmlType::kF16, GgmlType::kQ2_K}) {
    EXPECT_FALSE(multiplies_as_stored(type_of(type)));
  }
  for (const GgmlType type : kTypes) EXPECT_TRUE(multiplies_as_stored(type_of(type)));
}

class GgufWeightTest : public testing::Test {
 protected:
  GgufWeightTest() { context_ = {{}, &pool_, &workspace_}; }

  /// Loads rows of a type, columns [first, first + cols) of `stored_cols`; gives their values.
  std::vector<float> load(LinearWeight& weight, GgmlType type, int64_t row, int64_t rows, int64_t first,
                          int64_t stored_cols) {
    const GgmlTypeInfo& info = type_of(type);
    const std::vector<std::byte> stored = random_rows(type, rows, stored_cols, static_cast<unsigned>(row + 1));
    const size_t row_bytes = stored.size() / static_cast<size_t>(rows);
    std::vector<float> all(static_cast<size_t>(rows * stored_cols));
    gguf_dequantize(info, stored.data(), rows * stored_cols, all.data());
    const bool as_stored = weight.begin_rows(context_, &info, first, row, rows);
    as_stored_.push_back(as_stored);
    for (int64_t r = 0; r < rows && as_stored; ++r) {
      weight.load_stored_row(stored.data() + static_cast<size_t>(r) * row_bytes, row + r);
    }
    const MatrixView view{all.data() + first, DType::kFloat32, rows, weight.in_features(), stored_cols};
    if (!as_stored) weight.load_rows(context_, view, row);
    std::vector<float> values;
    for (int64_t r = 0; r < rows; ++r) {
      const float* const begin = all.data() + r * stored_cols + first;
      values.insert(values.end(), begin, begin + weight.in_features());
    }
    return values;
  }

  ThreadPool pool_{{2, false}};
  Workspace workspace_;
  HugePageArena arena_;
  OpContext context_;
  std::vector<bool> as_stored_;
};

TEST_F(GgufWeightTest, PiecesOfSeveralTypesAreOneMatrix) {
  const auto method = make_gguf_linear_method(DType::kFloat32);
  constexpr int64_t kIn = 256;
  constexpr int64_t kOut = 24 + 40 + 16 + 30 + 5;
  const auto weight = method->create_weight(context_, arena_, kOut, kIn);
  std::vector<float> values(kOut * kIn);  // the last five rows are never loaded: zero
  const auto put = [&](GgmlType type, int64_t row, int64_t rows) {
    const std::vector<float> piece = load(*weight, type, row, rows, 0, kIn);
    std::ranges::copy(piece, values.begin() + row * kIn);
  };
  put(GgmlType::kQ6_K, 64, 16);
  put(GgmlType::kQ4_K, 0, 24);
  put(GgmlType::kQ5_0, 24, 40);
  put(GgmlType::kQ8_0, 80, 30);
  EXPECT_EQ(as_stored_, (std::vector<bool>{true, true, false, true}));
  Tensor x = Tensor::empty(3, kIn, DType::kFloat32);
  Tensor bias = Tensor::empty(1, kOut, DType::kFloat32);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] = normal(random);
  for (int64_t i = 0; i < kOut; ++i) bias.data<float>()[i] = normal(random);
  Tensor out = Tensor::empty(3, kOut, DType::kFloat32);
  weight->apply(context_, x, bias, out);
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t n = 0; n < kOut; ++n) {
      double sum = bias.data<float>()[n];
      double magnitude = 0;
      for (int64_t k = 0; k < kIn; ++k) {
        const double w = values[static_cast<size_t>(n * kIn + k)];
        sum += w * x.row<float>(r)[k];
        magnitude += std::abs(w);
      }
      // A row's byte is off by at most half of a 127th of the largest of its 32 values, here below 4.5.
      ASSERT_NEAR(out.row<float>(r)[n], sum, magnitude * 4.5 / 254 + 1e-4) << n;
    }
  }
  Tensor ids = Tensor::empty(1, kOut, DType::kInt32);
  for (int32_t i = 0; i < kOut; ++i) ids.data<int32_t>()[i] = i;
  Tensor rows = Tensor::empty(kOut, kIn, DType::kFloat32);
  weight->gather(context_, ids, rows);
  for (int64_t n = 0; n < kOut; ++n) {
    for (int64_t k = 0; k < kIn; ++k) ASSERT_EQ(rows.row<float>(n)[k], values[static_cast<size_t>(n * kIn + k)]) << n;
  }
}

TEST_F(GgufWeightTest, AShareOfColumnsIsTakenInWholeBlocksOrKeptAsFloats) {
  const auto method = make_gguf_linear_method(DType::kFloat32);
  struct Case {
    GgmlType type;
    int64_t first, count;
    bool as_stored;
  };
  for (const Case& c :
       {Case{GgmlType::kQ4_1, 64, 96, true}, Case{GgmlType::kQ4_1, 16, 96, false}, Case{GgmlType::kQ8_0, 0, 80, false},
        Case{GgmlType::kQ4_K, 256, 256, true}, Case{GgmlType::kQ6_K, 128, 256, false}}) {
    const auto weight = method->create_weight(context_, arena_, 16, c.count);
    const std::vector<float> values = load(*weight, c.type, 0, 16, c.first, 512);
    EXPECT_EQ(as_stored_.back(), c.as_stored);
    Tensor ids = Tensor::empty(1, 1, DType::kInt32);
    ids.data<int32_t>()[0] = 15;
    Tensor row = Tensor::empty(1, c.count, DType::kFloat32);
    weight->gather(context_, ids, row);
    for (int64_t k = 0; k < c.count; ++k) {
      ASSERT_EQ(row.data<float>()[k], values[static_cast<size_t>(15 * c.count + k)]);
    }
  }
  EXPECT_NE(method->summary().find("blocks cut by ranks"), std::string::npos) << method->summary();
}

}  // namespace
}  // namespace quire
