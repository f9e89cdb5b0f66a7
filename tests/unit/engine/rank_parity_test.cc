// The golden checkpoints and adapters divided over ranks of any number, against what transformers and PEFT computed;
// and the same bits each time, in any chunks and beside any neighbours.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/test_files.h"
#include "engine/parity.h"
#include "engine/tiny_checkpoint.h"

namespace quire::testing {
namespace {

EngineConfig over_ranks(int ranks, DType dtype = DType::kFloat32, int stages = 1) {
  EngineConfig config;
  config.dtype = dtype;
  config.tensor_parallel_size = ranks;
  config.pipeline_parallel_size = stages;
  config.threads = ranks;
  config.num_kv_blocks_override = 256;
  return config;
}

class RankParity : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string folder_ = golden_models() + "/" + GetParam();
};

TEST_P(RankParity, TP_09_EveryNumberOfRanksAgreesWithTransformers) {
  for (int ranks = 2; ranks <= 4; ++ranks) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    expect_parity(folder_, over_ranks(ranks));
  }
}

TEST_P(RankParity, IsTheSameBitsEachTimeInAnyChunksAndBesideOthers) {
  for (const auto& [ranks, dtype] : {std::pair{2, DType::kFloat32}, {2, DType::kBFloat16}, {3, DType::kFloat32}}) {
    ParityModel model(folder_, over_ranks(ranks, dtype));
    std::vector<ParityModel::Work> works;
    for (int32_t i = 0; i < 6; ++i) works.push_back({prompt_of(5 + (i * 31) % 90, 31 + i), 4, 1 << 20, 0});
    ParityModel again(folder_, over_ranks(ranks, dtype));
    expect_same_bits_in_any_company(model, again, std::move(works));
  }
}

/// Every adapter of a model's folder on every number of ranks, against what PEFT computed.
void expect_adapters_agree(const std::string& folder, bool fully_sharded) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!std::filesystem::exists(entry.path() / "adapter_config.json")) continue;
    const nlohmann::json prompts = read_adapter_prompts(folder, entry.path().filename());
    for (int ranks = 2; ranks <= 4; ++ranks) {
      SCOPED_TRACE(entry.path().filename().string() + ", " + std::to_string(ranks) + " ranks");
      EngineConfig config = over_ranks(ranks);
      config.lora.fully_sharded = fully_sharded;
      ParityModel model(folder, config);
      const uint64_t id = model.load_adapter(entry.path());
      for (const auto& prompt : prompts) {
        const auto steps = static_cast<int64_t>(prompt["greedy_token_ids"].size());
        expect_golden(model.run(prompt["token_ids"].get<std::vector<int32_t>>(), steps, 1 << 20, id), prompt);
      }
    }
  }
}

TEST_P(RankParity, AdaptersAgreeWithPeftOnEveryNumberOfRanks) { expect_adapters_agree(folder_, false); }

TEST_P(RankParity, FullyShardedAdaptersAgreeWithPeftOnEveryNumberOfRanks) { expect_adapters_agree(folder_, true); }

/// Several adapters in one batch, in any chunks: the ranks meet for each.
TEST_P(RankParity, FullyShardedAdaptersGiveTheSameBitsBesideOthers) {
  EngineConfig config = over_ranks(3);
  config.lora.fully_sharded = true;
  ParityModel model(folder_, config);
  std::vector<ParityModel::Work> works = {{prompt_of(20), 3, 1 << 20, 0}};
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (!std::filesystem::exists(entry.path() / "adapter_config.json")) continue;
    const auto step = static_cast<int32_t>(works.size());
    works.push_back({prompt_of(7 + step * 9, 31 + step), 3, 1 << 20, model.load_adapter(entry.path())});
  }
  std::vector<ParityModel::Answer> alone;
  for (const ParityModel::Work& work : works) alone.push_back(model.run_together({work}).front());
  for (ParityModel::Work& work : works) work.chunk = 7;
  const std::vector<ParityModel::Answer> together = model.run_together(works);
  for (size_t i = 0; i < works.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    expect_same_answer(together[i], alone[i]);
  }
}

/// Stages pass on what they have in float32, so their number changes no bit.
TEST_P(RankParity, StagesGiveTheBitsOfOneStage) {
  for (const auto& [ranks, dtype] : {std::pair{1, DType::kFloat32}, {1, DType::kBFloat16}, {2, DType::kFloat32}}) {
    ParityModel whole(folder_, over_ranks(ranks, dtype));
    ParityModel stages(folder_, over_ranks(ranks, dtype, 2));
    std::vector<uint64_t> adapters = {0};
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (!std::filesystem::exists(entry.path() / "adapter_config.json")) continue;
      adapters.push_back(whole.load_adapter(entry.path()));
      stages.load_adapter(entry.path());
    }
    std::vector<ParityModel::Work> works;
    for (size_t i = 0; i < adapters.size() + 3; ++i) {
      const auto step = static_cast<int32_t>(i);
      works.push_back({prompt_of(3 + (step * 31) % 50, 31 + step), 3, 16, adapters[i % adapters.size()]});
    }
    const std::vector<ParityModel::Answer> expected = whole.run_together(works);
    const std::vector<ParityModel::Answer> answers = stages.run_together(works);
    for (size_t i = 0; i < works.size(); ++i) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks in a stage, request " + std::to_string(i));
      expect_same_answer(answers[i], expected[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, RankParity,
                         ::testing::Values("llama", "llama-tied-bias", "llama3-rope", "llama-rope-linear",
                                           "llama-rope-yarn", "mistral-sliding", "qwen2", "qwen3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Stages, WithDifferentKindsOfLayersShareTheGroupsOfTheWholeModel) {
  const test::TemporaryFolder folder;
  const DecoderShape shape{.family = "qwen2",
                           .vocab = 77,
                           .hidden = 48,
                           .intermediate = 52,
                           .layers = 3,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_dim = 16,
                           .windows = {0, 32, 32}};
  write_folder(folder.path(), config_of(shape), random_tensors(shape, 1),
               [](const std::string&) { return DType::kFloat32; });
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 90; ++i) prompt.push_back((i * i + 3) % 77);
  ParityModel whole(folder.path(), over_ranks(1));
  const ParityModel::Answer expected = whole.run(prompt, 5);
  for (const int stages : {2, 3}) {
    ParityModel divided(folder.path(), over_ranks(1, DType::kFloat32, stages));
    EXPECT_EQ(divided.executor().kv_cache_groups().size(), 2u);
    expect_same_answer(divided.run(prompt, 5, 13), expected);
  }
  for (const std::vector<int64_t>& given : {std::vector<int64_t>{1, 2}, {2, 1}, {1, 1, 1}}) {
    EngineConfig config = over_ranks(1, DType::kFloat32, static_cast<int>(given.size()));
    config.pipeline_layer_partition = given;
    ParityModel divided(folder.path(), config);
    expect_same_answer(divided.run(prompt, 5, 13), expected);
  }
}

}  // namespace
}  // namespace quire::testing
