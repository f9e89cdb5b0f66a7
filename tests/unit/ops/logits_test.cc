// Scans of logits on every ISA against plain loops: ties, infinities and NaN included.
#include "ops/logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/copy.h"
#include "ops/cpu/backend.h"
#include "ops/op_fixture.h"

namespace quire::ops {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

RowStatistics statistics_of(const cpu::KernelTable& table, const Tensor& row, int threads = 1) {
  TestContext context(threads);
  std::vector<RowStatistics> out(1);
  cpu::row_statistics(table, context.get(), row, out);
  return out[0];
}

TEST(RowStatistics, AgreeWithFloat64AndTakeTheLowestOfEqualTokens) {
  std::mt19937 random(1);
  for (const int64_t vocab : {1, 7, 100, 4096, 4097, 49152, 50001}) {
    Tensor logits = random_tensor(3, vocab, random, 5.0f, 3);
    logits.row<float>(1)[vocab / 2] = 40.0f;
    logits.row<float>(1)[vocab - 1] = 40.0f;
    for (const cpu::KernelTable* table : available_tables()) {
      TestContext context(2);
      std::vector<RowStatistics> out(3);
      cpu::row_statistics(*table, context.get(), logits, out);
      for (int64_t row = 0; row < 3; ++row) {
        const float* const values = logits.row<float>(row);
        const int64_t best = std::max_element(values, values + vocab) - values;
        EXPECT_EQ(out[row].best.token, best);
        EXPECT_EQ(out[row].best.value, values[best]);
        double sum = 0.0;
        for (int64_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(values[i]) - values[best]);
        EXPECT_NEAR(out[row].log_sum_exp, values[best] + std::log(sum), 4e-6) << table->name << " " << vocab;
        const RowStatistics alone = statistics_of(*table, logits.slice_rows(row, 1));
        EXPECT_EQ(alone.log_sum_exp, out[row].log_sum_exp);
        EXPECT_EQ(alone.best.token, out[row].best.token);
      }
    }
  }
}

TEST(RowStatistics, TakeInfinitiesAndNan) {
  for (const cpu::KernelTable* table : available_tables()) {
    Tensor logits = Tensor::empty(1, 9000, DType::kFloat32);
    float* const values = logits.data<float>();
    std::fill_n(values, 9000, -kInfinity);
    EXPECT_EQ(statistics_of(*table, logits).best.token, 0);
    EXPECT_EQ(statistics_of(*table, logits).log_sum_exp, -kInfinity);
    values[8000] = 2.0f;
    EXPECT_EQ(statistics_of(*table, logits).best.token, 8000);
    EXPECT_EQ(statistics_of(*table, logits).log_sum_exp, 2.0f);
    values[3] = kNan;
    EXPECT_EQ(statistics_of(*table, logits).best.token, 8000) << "NaN never wins";
    EXPECT_TRUE(std::isnan(statistics_of(*table, logits).log_sum_exp)) << "but it shows";
    values[5000] = kInfinity;
    EXPECT_EQ(statistics_of(*table, logits).best.token, 5000);
    std::fill_n(values, 9000, kNan);
    EXPECT_EQ(statistics_of(*table, logits).best.token, 0);
    EXPECT_TRUE(std::isnan(statistics_of(*table, logits).log_sum_exp));
  }
}

std::vector<int32_t> sorted_tokens(const float* values, int64_t vocab) {
  std::vector<int32_t> tokens(static_cast<size_t>(vocab));
  std::iota(tokens.begin(), tokens.end(), 0);
  std::stable_sort(tokens.begin(), tokens.end(), [&](int32_t a, int32_t b) {
    if (std::isnan(values[a]) || std::isnan(values[b])) return !std::isnan(values[a]) && std::isnan(values[b]);
    return values[a] > values[b];
  });
  return tokens;
}

TEST(TopLogits, AreThoseOfAStableSort) {
  std::mt19937 random(2);
  for (const int64_t vocab : {1, 50, 3000}) {
    Tensor logits = random_tensor(1, vocab, random);
    float* const values = logits.data<float>();
    for (int64_t i = 0; i < vocab; i += 3) values[i] = std::round(values[i]);  // many ties, -0 among them
    for (int64_t i = 0; i < vocab; i += 11) values[i] = kNan;
    if (vocab > 40) values[40] = -kInfinity;
    const std::vector<int32_t> expected = sorted_tokens(values, vocab);
    for (const cpu::KernelTable* table : available_tables()) {
      for (const int64_t count : {1, 5, 20, 256, 257, 3000}) {
        if (count > vocab) continue;
        const std::vector<TokenValue> top = cpu::top_logits(*table, logits, 0, count);
        ASSERT_EQ(static_cast<int64_t>(top.size()), count);
        for (int64_t i = 0; i < count; ++i) ASSERT_EQ(top[i].token, expected[i]) << table->name << " " << count;
      }
    }
  }
}

TEST(TopLogits, CountIsCutToTheVocabulary) {
  std::mt19937 random(3);
  const Tensor logits = random_tensor(2, 10, random);
  TestContext context;
  EXPECT_EQ(top_logits(context.get(), logits, 1, 99).size(), 10u);
  EXPECT_TRUE(top_logits(context.get(), logits, 1, 0).empty());
  EXPECT_THROW(top_logits(context.get(), logits, 2, 1), CheckFailure);
}

TEST(CountLarger, CountsStrictlyLargerOnes) {
  std::mt19937 random(4);
  for (const int64_t vocab : {1, 17, 5000}) {
    const Tensor logits = random_tensor(1, vocab, random);
    float* const values = logits.data<float>();
    for (int64_t i = 0; i < vocab; i += 5) values[i] = kNan;
    for (const cpu::KernelTable* table : available_tables()) {
      for (const float value : {-kInfinity, -0.5f, values[vocab - 1], kInfinity}) {
        const int64_t expected = std::count_if(values, values + vocab, [&](float x) { return x > value; });
        EXPECT_EQ(cpu::count_larger(*table, logits, 0, value), expected) << table->name;
      }
    }
  }
}

TEST(Copies, MoveRowsAndRefuseWhatIsOutside) {
  std::mt19937 random(5);
  TestContext context;
  const Tensor x = random_tensor(4, 6, random, 1.0f, 2);
  std::vector<float> row(6);
  copy_row_to_host(context.get(), x, 2, row);
  EXPECT_TRUE(std::equal(row.begin(), row.end(), x.row<float>(2)));
  std::vector<float> all(24);
  copy_to_host(context.get(), x, all);
  EXPECT_EQ(all[3 * 6 + 5], x.row<float>(3)[5]);
  Tensor selected = Tensor::empty(3, 6, DType::kFloat32);
  select_rows(context.get(), x, std::vector<int32_t>{3, 0, 3}, selected);
  EXPECT_TRUE(same_values(selected.slice_rows(2, 1), x.slice_rows(3, 1)));
  EXPECT_THROW(select_rows(context.get(), x, std::vector<int32_t>{0, 1, 4}, selected), CheckFailure);
  std::vector<float> gathered(2);
  gather_logits(context.get(), x, 1, std::vector<int32_t>{5, 0}, gathered);
  EXPECT_EQ(gathered[0], x.row<float>(1)[5]);
  EXPECT_THROW(gather_logits(context.get(), x, 1, std::vector<int32_t>{6, 0}, gathered), CheckFailure);
  Tensor ids = Tensor::empty(1, 3, DType::kInt32);
  copy_from_host(context.get(), std::vector<int32_t>{7, 8, 9}, ids);
  EXPECT_EQ(ids.data<int32_t>()[2], 9);
  EXPECT_THROW(copy_from_host(context.get(), std::vector<int64_t>{7, 8, 9}, ids), CheckFailure);
}

}  // namespace
}  // namespace quire::ops
