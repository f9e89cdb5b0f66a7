// Reading tensors: at odd addresses, from many threads, after their pages were given back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "checkpoint/gguf_builder.h"
#include "checkpoint/gguf_source.h"
#include "checkpoint/safetensors_source.h"
#include "tensor/convert.h"

namespace quire {
namespace {

using test::raw;

std::vector<float> read(const WeightSource& source, const std::string& name, int64_t begin, int64_t count) {
  const WeightInfo* weight = source.find(name);
  if (weight == nullptr) return {};
  std::vector<float> scratch;
  const auto view = source.read_rows(*weight, begin, count, scratch);
  if (!view.ok()) return {};
  std::vector<float> values(static_cast<size_t>(view->rows * view->cols));
  for (int64_t row = 0; row < view->rows; ++row) row_to_float(*view, row, values.data() + row * view->cols);
  return values;
}

TEST(WeightSource, MisalignedSafetensorsAreWidened) {
  // Every length of padding moves the data to another alignment.
  for (const std::string padding : {"", " ", "  ", "   ", "    ", "     "}) {
    const test::TemporaryFolder folder;
    folder.write(
        "model.safetensors",
        test::safetensors(
            R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]},"c":{"dtype":"F16","shape":[3,1],"data_offsets":[22,28]}})" +
                padding,
            raw(1.0f) + raw(-2.0f) + raw(3.5f) + raw(4.0f) + raw<uint16_t>(0x3f80) + raw<uint16_t>(0xc000) +
                raw<uint16_t>(0x4060) + raw<uint16_t>(0x3c00) + raw<uint16_t>(0xc000) + raw<uint16_t>(0x4300)));
    const auto source = open_safetensors_folder(folder.path());
    ASSERT_TRUE(source.ok()) << source.error().message;
    EXPECT_THAT(read(**source, "a", 0, 2), testing::ElementsAre(1, -2, 3.5, 4));
    EXPECT_THAT(read(**source, "a", 1, 1), testing::ElementsAre(3.5, 4));
    EXPECT_THAT(read(**source, "b", 0, 1), testing::ElementsAre(1, -2, 3.5));
    EXPECT_THAT(read(**source, "c", 1, 2), testing::ElementsAre(-2, 3.5));
  }
}

constexpr int64_t kRows = 300, kCols = 1000;

std::vector<float> counting() {
  std::vector<float> values(kRows * kCols);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}

std::unique_ptr<WeightSource> big_safetensors(const test::TemporaryFolder& folder) {
  std::string data;
  for (const float value : counting()) data += raw(value);
  const std::string bytes = std::to_string(data.size()), last = std::to_string(data.size() + 4);
  folder.write(
      "model.safetensors",
      test::safetensors(R"({"m":{"dtype":"F32","shape":[300,1000],"data_offsets":[0,)" + bytes +
                            R"(]},"n":{"dtype":"F32","shape":[1],"data_offsets":[)" + bytes + "," + last + "]}}",
                        data + raw(7.0f)));
  auto source = open_safetensors_folder(folder.path());
  return source.ok() ? std::move(*source) : nullptr;
}

std::unique_ptr<WeightSource> big_gguf(const test::TemporaryFolder& folder) {
  const std::string bytes =
      test::GgufBuilder().floats("m", {kRows, kCols}, counting()).floats("n", {1}, {7.0f}).build();
  auto file = GgufFile::open(folder.write("m.gguf", bytes));
  if (!file.ok()) return nullptr;
  ModelConfig config;
  config.head_dim = 4;
  auto source = make_gguf_source(std::move(*file), config);
  return source.ok() ? std::move(*source) : nullptr;
}

class FileKind : public testing::TestWithParam<bool> {
 protected:
  const test::TemporaryFolder folder_;
  const std::unique_ptr<WeightSource> source_ = GetParam() ? big_gguf(folder_) : big_safetensors(folder_);
};

TEST_P(FileKind, ReleasedTensorsCanBeReadAgain) {
  ASSERT_NE(source_, nullptr);
  const std::vector<float> expected = counting();
  EXPECT_EQ(read(*source_, "m", 0, kRows), expected);
  source_->release(*source_->find("m"));
  EXPECT_THAT(read(*source_, "n", 0, 1), testing::ElementsAre(7)) << "its neighbour in the same page";
  EXPECT_EQ(read(*source_, "m", 0, kRows), expected);
}

TEST_P(FileKind, ManyThreadsReadAtOnce) {
  ASSERT_NE(source_, nullptr);
  const std::vector<float> expected = counting();
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < wrong.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t begin = static_cast<int64_t>(thread); begin + 7 <= kRows; begin += 5) {
        const std::vector<float> rows = read(*source_, "m", begin, 7);
        const bool same =
            std::equal(rows.begin(), rows.end(), expected.begin() + begin * kCols) && rows.size() == 7 * kCols;
        wrong[thread] += same ? 0 : 1;
        if (begin % 50 == 0) source_->release(*source_->find("m"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, testing::Each(0));
}

INSTANTIATE_TEST_SUITE_P(WeightSource, FileKind, testing::Bool(),
                         [](const auto& info) { return info.param ? "Gguf" : "Safetensors"; });

}  // namespace
}  // namespace quire
