#include "checkpoint/tied_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/test_files.h"

namespace quire {
namespace {

using test::raw;

/// What is said of a folder whose embedding is the float32 values 1 and -2 and whose head is `head` of `type`.
std::string said_of(bool tied, const std::string& type, const std::string& shape, const std::string& head) {
  const test::TemporaryFolder folder;
  folder.write("config.json", std::string(R"({"architectures":["LlamaForCausalLM"],"tie_word_embeddings":)") +
                                  (tied ? "true" : "false") + "}");
  folder.write(
      "model.safetensors",
      test::safetensors(
          R"({"model.embed_tokens.weight":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"lm_head.weight":{"dtype":")" +
              type + R"(","shape":)" + shape + R"(,"data_offsets":[8,)" + std::to_string(8 + head.size()) + "]}}",
          raw(1.0f) + raw(-2.0f) + head));
  const auto checkpoint = open_checkpoint(folder.path());
  if (!checkpoint.ok()) return checkpoint.error().message;
  const auto said = judge_tied_head(*checkpoint);
  return said.ok() ? *said : said.error().message;
}

TEST(ModelLoading, LOAD_06_AStoredHeadThatTheTieLeavesOutIsNamed) {
  const std::string same = raw(1.0f) + raw(-2.0f);
  const std::string other = raw(1.0f) + raw(-2.5f);
  EXPECT_EQ(said_of(true, "F32", "[2,1]", same), "");
  EXPECT_EQ(said_of(true, "BF16", "[2,1]", raw<uint16_t>(0x3f80) + raw<uint16_t>(0xc000)), "");
  EXPECT_THAT(said_of(true, "F32", "[2,1]", other), testing::HasSubstr("lm_head.weight differs"));
  EXPECT_THAT(said_of(true, "BF16", "[2,1]", raw<uint16_t>(0x3f80) + raw<uint16_t>(0x3f80)),
              testing::HasSubstr("tie_word_embeddings"));
  EXPECT_THAT(said_of(true, "F32", "[1,2]", same), testing::HasSubstr("lm_head.weight differs"));
  EXPECT_EQ(said_of(false, "F32", "[2,1]", other), "");
}

}  // namespace
}  // namespace quire
