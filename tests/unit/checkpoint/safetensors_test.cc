#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_source.h"
#include "checkpoint/test_files.h"

namespace quire {
namespace {

using test::safetensors;
using testing::HasSubstr;

std::string opening_error(const std::string& file) {
  const auto parsed = SafetensorsFile::parse(test::bytes_of(file), "test.safetensors");
  return parsed.ok() ? "no error" : parsed.error().message;
}

const std::string kHeader = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";

TEST(ModelLoading, LOAD_01_TruncatedShard) {
  const std::string whole = safetensors(kHeader, std::string(16, 'x'));
  EXPECT_EQ(opening_error(whole), "no error");
  const std::string needed = std::to_string(whole.size());
  const std::string actual = std::to_string(whole.size() - 1);
  const std::string message = opening_error(whole.substr(0, whole.size() - 1));
  EXPECT_THAT(message, testing::AllOf(HasSubstr("test.safetensors"), HasSubstr(needed), HasSubstr(actual)));
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(opening_error(whole.substr(0, size)), "no error") << size;
}

TEST(ModelLoading, LOAD_02_PointerFilesAndWebPages) {
  EXPECT_THAT(opening_error("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
              HasSubstr("LFS pointer"));
  EXPECT_THAT(opening_error("<!DOCTYPE html><html></html>"), HasSubstr("web page"));
  EXPECT_THAT(opening_error(""), HasSubstr("empty"));
}

TEST(Safetensors, MalformedHeadersAreRefused) {
  const auto with = [](const std::string& header) { return opening_error(safetensors(header, std::string(16, 'x'))); };
  EXPECT_THAT(with(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,15]}})"), HasSubstr("do not match"));
  EXPECT_THAT(with(R"({"a":{"dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,16]}})"),
              HasSubstr("overflows"));
  EXPECT_THAT(with(R"({"a":{"dtype":"F99","shape":[4],"data_offsets":[0,16]}})"), HasSubstr("F99"));
  EXPECT_THAT(with(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})"), HasSubstr("hole"));
  EXPECT_THAT(
      with(
          R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]},"b":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})"),
      HasSubstr("overlaps"));
  EXPECT_THAT(
      with(
          R"({"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]},"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]}})"),
      HasSubstr("twice"));
  EXPECT_THAT(with(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,16]}})"), HasSubstr("shape"));
  EXPECT_THAT(opening_error(test::raw<uint64_t>(UINT64_MAX) + "{}"), HasSubstr("claims"));
}

TEST(ModelLoading, LOAD_18_StoredTypesAreLentAndOthersRefusedByName) {
  const test::TemporaryFolder folder;
  folder.write(
      "model.safetensors",
      safetensors(
          R"({"a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},"b":{"dtype":"F16","shape":[2],"data_offsets":[8,12]},"c":{"dtype":"I32","shape":[1],"data_offsets":[12,16]}})",
          std::string("\x80\x3f\x00\x40\x40\x40\x80\x40\x00\x3c\x00\x40\0\0\0\0", 16)));
  const auto source = open_safetensors_folder(folder.path());
  ASSERT_TRUE(source.ok()) << source.error().message;
  std::vector<float> scratch;
  const auto rows = (*source)->read_rows(*(*source)->find("a"), 1, 1, scratch);
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->cols, 2);
  const auto refused = (*source)->read_rows(*(*source)->find("c"), 0, 1, scratch);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("I32"));
}

TEST(Safetensors, IndexAndShardsMustAgree) {
  const test::TemporaryFolder folder;
  folder.write("one.safetensors", safetensors(kHeader, std::string(16, 'x')));
  const auto error_for = [&](const std::string& index) {
    folder.write("model.safetensors.index.json", index);
    const auto source = open_safetensors_folder(folder.path());
    return source.ok() ? "no error" : source.error().message;
  };
  EXPECT_EQ(error_for(R"({"weight_map":{"a":"one.safetensors"}})"), "no error");
  EXPECT_THAT(error_for(R"({"weight_map":{"a":"two.safetensors"}})"), HasSubstr("missing"));
  EXPECT_THAT(error_for(R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors"}})"), HasSubstr("'b'"));
  EXPECT_THAT(error_for(R"({"weight_map":{"a":"../one.safetensors"}})"), HasSubstr("plain file name"));
  folder.write("two.safetensors", safetensors(kHeader, std::string(16, 'x')));
  EXPECT_THAT(error_for(R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})"), HasSubstr("both"));
}

/// 640 is 0x280: its bytes are how a pickle begins.
TEST(SafetensorsFile, AHeadersLengthIsNoPickle) {
  for (const size_t length : {0x280u, 0x480u}) {
    std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    header.resize(length, ' ');
    const std::string file = safetensors(header, std::string(4, '\0'));
    const auto opened = SafetensorsFile::parse(test::bytes_of(file), "file");
    EXPECT_TRUE(opened.ok()) << opened.error().message;
  }
}

}  // namespace
}  // namespace quire
