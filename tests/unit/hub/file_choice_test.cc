#include "hub/file_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<HubFile> listing(const std::vector<std::string>& names) {
  std::vector<HubFile> files;
  for (const std::string& name : names) files.push_back({name, 1});
  return files;
}

std::string refusal(const Result<FileChoice>& choice) { return choice.ok() ? "" : choice.error().message; }

const std::vector<std::string> kText = {"config.json",           "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json", "chat_template.jinja",    "merges.txt"};

std::vector<std::string> with(std::vector<std::string> more) {
  more.insert(more.begin(), kText.begin(), kText.end());
  return more;
}

TEST(FileChoice, OfAModelLeavesOutWhatIsNotRead) {
  const auto files = listing(
      with({"model.safetensors", "README.md", ".gitattributes", "pytorch_model.bin", "pytorch_model.bin.index.json",
            "onnx/config.json", "original/model.safetensors", "consolidated.safetensors", "a.gguf"}));
  const auto choice = choose_model_files(files, "", "org/name");
  ASSERT_TRUE(choice.ok()) << refusal(choice);
  EXPECT_EQ(choice->files, with({"model.safetensors"}));
  EXPECT_EQ(choice->index, "");
  EXPECT_EQ(choice->single, "");
}

TEST(FileChoice, FollowsTheIndexBeforeASingleFile) {
  const auto files = listing(with({"model.safetensors.index.json", "model.safetensors",
                                   "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}));
  const auto choice = choose_model_files(files, "", "org/name");
  ASSERT_TRUE(choice.ok()) << refusal(choice);
  EXPECT_EQ(choice->files, with({"model.safetensors.index.json"}));
  EXPECT_EQ(choice->index, "model.safetensors.index.json");

  const auto shards = files_of_index(
      R"({"weight_map": {"a": "model-00002-of-00002.safetensors", "b": "model-00001-of-00002.safetensors",
                         "c": "model-00002-of-00002.safetensors"}})",
      files, "org/name");
  ASSERT_TRUE(shards.ok());
  EXPECT_THAT(*shards, ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"));
}

TEST(FileChoice, RefusesIndicesThatLeadElsewhere) {
  const auto files = listing({"model.safetensors.index.json"});
  for (const char* const text : {R"({"weight_map": {"a": "../secret"}})", R"({"weight_map": {"a": 1}})",
                                 R"({"weight_map": []})", "[]", "{", ""}) {
    EXPECT_FALSE(files_of_index(text, files, "org/name").ok()) << text;
  }
}

TEST(FileChoice, TakesTheGgufFileOfAVariant) {
  const auto files = listing({"README.md", "name-Q4_K_M.gguf", "name-Q8_0.gguf", "name-UD-Q4_K_M.gguf",
                              "sub/name.f16.gguf", "mmproj-Q8_0.gguf"});
  const auto single = [&](const std::string& variant) {
    const auto choice = choose_model_files(files, variant, "org/name");
    return choice.ok() ? choice->single : choice.error().message;
  };
  EXPECT_EQ(single("Q8_0"), "name-Q8_0.gguf");
  EXPECT_EQ(single("q8_0"), "name-Q8_0.gguf");
  EXPECT_EQ(single("F16"), "sub/name.f16.gguf");
  EXPECT_EQ(single("UD-Q4_K_M"), "name-UD-Q4_K_M.gguf");
  EXPECT_EQ(single("name-Q4_K_M.gguf"), "name-Q4_K_M.gguf");
  EXPECT_THAT(single("Q4_K_M"), HasSubstr("has 2 files of 'Q4_K_M'"));
  EXPECT_THAT(single("Q2_K"), HasSubstr("no .gguf file of 'Q2_K'; there are name-Q4_K_M.gguf, name-Q8_0.gguf"));
  EXPECT_THAT(single("4_K_M"), HasSubstr("no .gguf file"));
}

TEST(FileChoice, OfSeveralGgufFilesIsQ4KMOrTheUsers) {
  EXPECT_EQ(choose_model_files(listing({"a-q4_k_m.gguf", "a-q8_0.gguf"}), "", "org/name")->single, "a-q4_k_m.gguf");
  EXPECT_EQ(choose_model_files(listing({"a-q8_0.gguf"}), "", "org/name")->single, "a-q8_0.gguf");
  const auto unclear = choose_model_files(listing({"a-q5_0.gguf", "a-q8_0.gguf"}), "", "org/name");
  EXPECT_THAT(refusal(unclear), HasSubstr("several .gguf files"));
  const auto parts =
      choose_model_files(listing({"a-q8_0-00001-of-00002.gguf", "a-q8_0-00002-of-00002.gguf"}), "Q8_0", "org/name");
  EXPECT_THAT(refusal(parts), HasSubstr("llama-gguf-split --merge"));
}

TEST(FileChoice, SaysWhatARepositoryHasInstead) {
  const auto why = [](const std::vector<std::string>& names) {
    return refusal(choose_model_files(listing(names), "", "org/name"));
  };
  EXPECT_THAT(why({"adapter_config.json", "adapter_model.safetensors"}), HasSubstr("is a LoRA adapter"));
  EXPECT_THAT(why({"config.json", "pytorch_model.bin"}), HasSubstr("pickles"));
  EXPECT_THAT(why({"README.md"}), HasSubstr("no model that can be read"));
  EXPECT_THAT(why({}), HasSubstr("no model that can be read"));
}

TEST(FileChoice, OfAnAdapterIsConfigAndWeights) {
  const auto choice = choose_adapter_files(
      listing({"README.md", "adapter_config.json", "adapter_model.safetensors", "optimizer.pt"}), "org/a");
  ASSERT_TRUE(choice.ok()) << refusal(choice);
  EXPECT_THAT(choice->files, ElementsAre("adapter_config.json", "adapter_model.safetensors"));
  EXPECT_FALSE(choose_adapter_files(listing({"adapter_config.json", "adapter_model.bin"}), "org/a").ok());
  EXPECT_FALSE(choose_adapter_files(listing({"adapter_model.safetensors"}), "org/a").ok());
}

TEST(FileChoice, OfATokenizerHasNoWeights) {
  EXPECT_EQ(choose_tokenizer_files(listing(with({"model.safetensors"})), "", "org/t")->files, kText);
  EXPECT_EQ(choose_tokenizer_files(listing({"a-q8_0.gguf"}), "", "org/t")->single, "a-q8_0.gguf");
  EXPECT_FALSE(choose_tokenizer_files(listing({"config.json"}), "", "org/t").ok());
}

}  // namespace
}  // namespace quire
