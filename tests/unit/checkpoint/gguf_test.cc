#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "checkpoint/byte_reader.h"
#include "checkpoint/gguf_dequantize.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/gguf_source.h"
#include "checkpoint/test_files.h"

namespace quire {
namespace {

using test::gguf_preamble;
using test::gguf_string;
using test::raw;
using testing::HasSubstr;

std::string tensor_entry(const std::string& name, const std::vector<uint64_t>& dimensions, uint32_t type,
                         uint64_t offset) {
  std::string entry = gguf_string(name) + raw(static_cast<uint32_t>(dimensions.size()));
  for (const uint64_t dimension : dimensions) entry += raw(dimension);
  return entry + raw(type) + raw(offset);
}

std::string error_of(const std::string& file) {
  const auto parsed = GgufFile::parse(test::bytes_of(file), "test.gguf");
  return parsed.ok() ? "no error" : parsed.error().message;
}

TEST(GgufDequantize, MatchesGgufPy) {
  std::ifstream stream(QUIRE_TESTS_DIR "/golden/gguf/blocks.bin", std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(stream)), {});
  ByteReader reader(test::bytes_of(content));
  int types = 0;
  while (reader.remaining() > 0) {
    const GgmlTypeInfo* type = find_ggml_type(reader.read<uint32_t>());
    ASSERT_NE(type, nullptr);
    const auto blocks = reader.read<uint32_t>();
    const auto stored = reader.take(uint64_t{blocks} * type->block_bytes);
    const auto expected = reader.take(uint64_t{blocks} * type->block_size * sizeof(float));
    ASSERT_FALSE(reader.failed());
    std::vector<float> values(size_t{blocks} * type->block_size);
    gguf_dequantize(*type, stored.data(), static_cast<int64_t>(values.size()), values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      float want = 0;
      std::memcpy(&want, expected.data() + i * sizeof(float), sizeof(float));
      ASSERT_FLOAT_EQ(values[i], want) << type->name << " element " << i;
    }
    ++types;
  }
  EXPECT_EQ(types, 13);
}

TEST(ModelLoading, LOAD_04_DimensionsOverflow) {
  for (const std::vector<uint64_t>& dimensions : {std::vector<uint64_t>{(uint64_t{1} << 42) + 1},
                                                  {INT64_MAX, 2, 1, 1},
                                                  {uint64_t{1} << 32, uint64_t{1} << 32},
                                                  {UINT64_MAX},
                                                  {0}}) {
    EXPECT_NE(error_of(gguf_preamble(1, 0) + tensor_entry("t", dimensions, 0, 0) + std::string(64, '\0')), "no error");
  }
}

TEST(ModelLoading, LOAD_04_CountsBeyondTheFile) {
  EXPECT_THAT(error_of(gguf_preamble(UINT64_MAX - 1, 0)), HasSubstr("more than fit"));
  EXPECT_THAT(error_of(gguf_preamble(0, UINT64_MAX)), HasSubstr("more than fit"));
  const std::string long_string = gguf_string("k") + raw<uint32_t>(8) + raw<uint64_t>(UINT64_MAX);
  EXPECT_THAT(error_of(gguf_preamble(0, 1) + long_string), HasSubstr("ends inside"));
  const std::string long_array =
      gguf_string("k") + raw<uint32_t>(9) + raw<uint32_t>(10) + raw<uint64_t>(UINT64_MAX / 4);
  EXPECT_THAT(error_of(gguf_preamble(0, 1) + long_array), HasSubstr("ends inside"));
  const std::string nested = gguf_string("k") + raw<uint32_t>(9) + raw<uint32_t>(9) + raw<uint64_t>(1);
  EXPECT_THAT(error_of(gguf_preamble(0, 1) + nested), HasSubstr("array of arrays"));
}

TEST(ModelLoading, LOAD_04_Alignment) {
  for (const uint32_t alignment : {0U, 3U, 1U << 30}) {
    const std::string value = gguf_string("general.alignment") + raw<uint32_t>(4) + raw(alignment);
    EXPECT_THAT(error_of(gguf_preamble(0, 1) + value), HasSubstr("general.alignment"));
  }
}

TEST(ModelLoading, LOAD_04_TensorBeyondTheEnd) {
  const std::string head = gguf_preamble(1, 0) + tensor_entry("t", {8}, 0, 0);
  const std::string padded = head + std::string((32 - head.size() % 32) % 32, '\0');
  EXPECT_EQ(error_of(padded + std::string(32, '\0')), "no error");
  EXPECT_THAT(error_of(padded + std::string(31, '\0')), HasSubstr("needs the file to have"));
}

TEST(GgufFile, BigEndianIsRefused) {
  EXPECT_THAT(error_of(std::string("GGUF\0\0\0\3", 8) + std::string(16, '\0')), HasSubstr("big-endian"));
}

TEST(GgufFile, TypedValues) {
  const std::string file = gguf_preamble(0, 3) + gguf_string("i") + raw<uint32_t>(5) + raw<int32_t>(-3) +
                           gguf_string("s") + raw<uint32_t>(8) + gguf_string("text") + gguf_string("a") +
                           raw<uint32_t>(9) + raw<uint32_t>(8) + raw<uint64_t>(2) + gguf_string("x") + gguf_string("");
  const auto parsed = GgufFile::parse(test::bytes_of(file), "test.gguf");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->get<int64_t>("i").value(), -3);
  EXPECT_EQ(parsed->get<std::string_view>("s").value(), "text");
  EXPECT_THAT(parsed->get<std::vector<std::string_view>>("a").value(), testing::ElementsAre("x", ""));
  EXPECT_EQ(parsed->get<bool>("i").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(parsed->get<bool>("none").error().kind, ErrorKind::kNotFound);
  EXPECT_FALSE(parsed->find<bool>("none").value().has_value());
}

TEST(GgufSource, QueryRowsAreUnpermuted) {
  // One head of size 4, one column: stored rows 0 1 2 3 are Hugging Face's 0 2 1 3.
  const std::string head = gguf_preamble(1, 0) + tensor_entry("blk.0.attn_q.weight", {1, 4}, 0, 0);
  std::string file = head + std::string((32 - head.size() % 32) % 32, '\0');
  for (const float value : {0.0F, 1.0F, 2.0F, 3.0F}) file += raw(value);
  for (const bool llama : {true, false}) {
    auto parsed = GgufFile::parse(test::bytes_of(file), "test.gguf");
    ASSERT_TRUE(parsed.ok());
    ModelConfig config;
    config.model_type = llama ? "llama" : "qwen2";
    config.head_dim = 4;
    const auto source = make_gguf_source(std::move(parsed).value(), config);
    ASSERT_TRUE(source.ok());
    const WeightInfo* weight = (*source)->find("model.layers.0.self_attn.q_proj.weight");
    ASSERT_NE(weight, nullptr);
    std::vector<float> scratch;
    const auto rows = (*source)->read_rows(*weight, 1, 3, scratch);
    ASSERT_TRUE(rows.ok());
    const auto* values = static_cast<const float*>(rows->data);
    EXPECT_THAT(std::vector<float>(values, values + 3),
                llama ? testing::ElementsAre(2.0F, 1.0F, 3.0F) : testing::ElementsAre(1.0F, 2.0F, 3.0F));
  }
}

}  // namespace
}  // namespace quire
