#include "cli/adapter_flags.h"

#include <gtest/gtest.h>

namespace quire::cli {
namespace {

TEST(AdapterFlags, ModulesAsPairsAndAsJson) {
  const AdapterSpec pair = parse_lora_module("sql=/adapters/a=b");
  EXPECT_EQ(pair.name, "sql");
  EXPECT_EQ(pair.path, "/adapters/a=b");
  const AdapterSpec json = parse_lora_module(R"({"name": "sql", "path": "/a", "base_model_name": "m"})");
  EXPECT_EQ(json.name, "sql");
  EXPECT_EQ(json.path, "/a");
  EXPECT_EQ(json.base_model_name, "m");
  for (const char* wrong : {"", "=", "a=", "=b", "{", "{}", R"({"name": 1, "path": "x"})",
                            R"({"name": "a", "path": "x", "lora_alpha": 3})", R"({"name": "", "path": "x"})"}) {
    EXPECT_THROW(parse_lora_module(wrong), FlagError) << wrong;
  }
}

TEST(AdapterFlags, PathsHaveNamesOfTheirOwn) {
  const std::vector<AdapterSpec> specs = specs_of_paths({"/a", "/a", "/b"});
  ASSERT_EQ(specs.size(), 3u);
  EXPECT_NE(specs[0].name, specs[1].name);
  EXPECT_EQ(specs[1].path, "/a");
}

}  // namespace
}  // namespace quire::cli
