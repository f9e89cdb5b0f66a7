#include "hub/hub_id.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(HubId, IsOneOrganisationAndOneName) {
  for (const char* const text : {"org/name", "Qwen/Qwen3-0.6B", "o_1/n.v2"}) {
    const auto id = parse_hub_id(text);
    ASSERT_TRUE(id) << text;
    EXPECT_EQ(id->repository, text);
    EXPECT_EQ(id->variant, "");
  }
}

TEST(HubId, MayNameAVariant) {
  EXPECT_EQ(parse_hub_id("org/name:Q4_K_M")->variant, "Q4_K_M");
  const auto id = parse_hub_id("org/name-GGUF:sub/name-q8_0.gguf");
  ASSERT_TRUE(id);
  EXPECT_EQ(id->repository, "org/name-GGUF");
  EXPECT_EQ(id->variant, "sub/name-q8_0.gguf");
}

TEST(HubId, IsNoPath) {
  for (const char* const text : {"", "name", "/org/name", "./name", "../name", "~/name", "org/name/file", "org/name/",
                                 "org/", "org/name.gguf", "org/model.safetensors", "org/na me", "org/..", "org/a..b",
                                 "org/a--b", "org/name:", "https://hub/org/name", "org/n\xc3\xa9"}) {
    EXPECT_FALSE(parse_hub_id(text)) << text;
  }
}

}  // namespace
}  // namespace quire
