// A model and an adapter by their names in a hub, found in its cache.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "quire/llm.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

class LlmHub : public testing::Test {
 protected:
  void SetUp() override {
    cache_ = fs::temp_directory_path() / ("quire-llm-hub-" + std::to_string(getpid()));
    setenv("HF_HUB_OFFLINE", "1", 1);
    add("models--org--llama", "main", kModel);
    add("models--org--adapter", "main", kModel + "/qv-r4");
  }
  void TearDown() override {
    unsetenv("HF_HUB_OFFLINE");
    fs::remove_all(cache_);
  }

  /// Links a folder's files as Hugging Face's cache does.
  void add(const std::string& repository, const std::string& revision, const fs::path& folder) const {
    const std::string commit(40, 'a');
    const fs::path root = cache_ / repository, snapshot = root / "snapshots" / commit;
    fs::create_directories(root / "refs");
    fs::create_directories(snapshot);
    std::ofstream(root / "refs" / revision) << commit;
    for (const auto& file : fs::directory_iterator(folder)) {
      if (file.is_regular_file()) fs::create_symlink(file.path(), snapshot / file.path().filename());
    }
  }

  LLMOptions options(const std::string& model) const {
    LLMOptions options;
    options.model = model;
    options.download_dir = cache_.string();
    options.dtype = "float32";
    options.enable_lora = true;
    options.kv_cache_memory_bytes = 1 << 24;
    options.threads = 1;
    return options;
  }

  static std::vector<int32_t> answer(LLM& llm, const std::string& adapter) {
    LLM::Prompt prompt(std::string("one two"));
    prompt.lora = LoraRequest{"tuned", adapter};
    SamplingParams params;
    params.temperature = 0;
    params.max_tokens = 4;
    const auto outputs = llm.generate({prompt}, params);
    EXPECT_TRUE(outputs) << outputs.error().message;
    return outputs->front().outputs.front().token_ids;
  }

  const std::string kModel = std::string(QUIRE_TESTS_DIR) + "/golden/models/llama";
  fs::path cache_;
};

TEST_F(LlmHub, NamesAreFoundInTheCache) {
  auto by_name = LLM::create(options("org/llama"));
  ASSERT_TRUE(by_name) << by_name.error().message;
  auto by_path = LLM::create(options(kModel));
  ASSERT_TRUE(by_path) << by_path.error().message;
  EXPECT_EQ(answer(*by_name, "org/adapter"), answer(*by_path, kModel + "/qv-r4"));

  const auto added = by_name->add_lora({"other", "org/adapter"});
  EXPECT_TRUE(added) << added.error().message;
  const auto missing = by_name->add_lora({"third", "org/missing"});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("org/missing"), std::string::npos) << missing.error().message;
}

TEST_F(LlmHub, ARevisionThatIsNotThereIsAnError) {
  LLMOptions other = options("org/llama");
  other.revision = "v2";
  const auto llm = LLM::create(other);
  ASSERT_FALSE(llm);
  EXPECT_NE(llm.error().message.find("no revision 'v2' of org/llama"), std::string::npos) << llm.error().message;
}

}  // namespace
}  // namespace quire
