// Adapters against what PEFT computed with them; and each request with its adapter bit for bit the same alone, among
// others, in chunks and from the cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "checkpoint/test_files.h"
#include "engine/parity.h"
#include "engine/tiny_checkpoint.h"

namespace quire::testing {
namespace {

EngineConfig storing(DType dtype, int64_t blocks = 64) {
  EngineConfig config;
  config.dtype = dtype;
  config.num_kv_blocks_override = blocks;
  config.threads = 2;
  return config;
}

std::string model_folder(const std::string& model) { return golden_models() + "/" + model; }

/// Folders with an adapter that lie in a model's folder.
std::vector<std::string> adapters_of(const std::string& model) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(model_folder(model))) {
    if (std::filesystem::exists(entry.path() / "adapter_config.json")) names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

/// What `model`, which may hold the weights of `model_name` in another form, computes with one of its adapters.
void expect_adapter_parity(ParityModel& model, const std::string& model_name, const std::string& adapter) {
  SCOPED_TRACE(model_name + "/" + adapter);
  const nlohmann::json prompts = read_adapter_prompts(model_folder(model_name), adapter);
  ASSERT_FALSE(prompts.empty());
  const uint64_t id = model.load_adapter(model_folder(model_name) + "/" + adapter);
  for (const auto& prompt : prompts) {
    const auto steps = static_cast<int64_t>(prompt["greedy_token_ids"].size());
    expect_golden(model.run(prompt["token_ids"].get<std::vector<int32_t>>(), steps, 1 << 20, id), prompt);
  }
}

void expect_adapter_parity(const std::string& model_name, const std::string& adapter) {
  ParityModel model(model_folder(model_name), storing(DType::kFloat32));
  expect_adapter_parity(model, model_name, adapter);
}

/// Puts the tensors that have `pieces` in their names one under the other, as a checkpoint with merged projections has
/// them.
void merge_tensors(TensorMap& tensors, const std::vector<std::string>& pieces, const std::string& merged) {
  std::vector<std::string> firsts;
  for (const auto& [name, tensor] : tensors) {
    if (name.find(pieces[0]) != std::string::npos) firsts.push_back(name);
  }
  for (const std::string& first : firsts) {
    const auto named = [&](const std::string& piece) {
      return std::string(first).replace(first.find(pieces[0]), pieces[0].size(), piece);
    };
    NamedTensor whole;
    for (const std::string& piece : pieces) {
      const auto part = tensors.extract(named(piece));
      const std::vector<float>& values = part.mapped().values;
      const int64_t rows = whole.shape.empty() ? 0 : whole.shape[0];
      whole.shape = part.mapped().shape;
      whole.shape[0] += rows;
      whole.values.insert(whole.values.end(), values.begin(), values.end());
    }
    tensors[named(merged)] = std::move(whole);
  }
}

TEST(LoraParity, PlainOnAllLinears) {
  expect_adapter_parity("llama", "trained-strides");
  expect_adapter_parity("llama", "all-r8");
  expect_adapter_parity("qwen2", "all-r8");
  expect_adapter_parity("qwen3", "attn-r8");
}
TEST(LoraParity, LORA_01_RankStabilizedScale) { expect_adapter_parity("llama", "rslora-r16"); }
TEST(LoraParity, LORA_03_RankAndAlphaPatterns) {
  expect_adapter_parity("llama", "rank-pattern");
  expect_adapter_parity("llama", "regex-patterns");
}
TEST(LoraParity, LORA_04_DoraIsComputedAsDora) { expect_adapter_parity("llama", "dora-r4"); }
TEST(LoraParity, LORA_06_TrainedHead) { expect_adapter_parity("llama", "trained-head"); }
TEST(LoraParity, LORA_08_EmbeddingAndHead) { expect_adapter_parity("llama", "embed-and-head"); }
TEST(LoraParity, LORA_32_PartsOfMergedLayers) {
  expect_adapter_parity("llama", "only-q");
  expect_adapter_parity("llama", "only-up");
  expect_adapter_parity("llama", "qv-r4");
  expect_adapter_parity("qwen2", "mlp-r2");
}

TEST(LoraParity, MergedModulesOverAMergedCheckpointAndOverASeparateOne) {
  const test::TemporaryFolder folder;
  const std::string separate = model_folder("llama");
  TensorMap tensors = read_tensors(separate);
  merge_tensors(tensors, {"q_proj", "k_proj", "v_proj"}, "qkv_proj");
  merge_tensors(tensors, {"gate_proj", "up_proj"}, "gate_up_proj");
  write_folder(folder.path(), nlohmann::json::parse(std::ifstream(separate + "/config.json")), tensors,
               [](const std::string&) { return DType::kFloat32; });
  ParityModel merged(folder.path(), storing(DType::kFloat32));
  const nlohmann::json golden = read_golden(separate);
  for (const auto& prompt : golden.at("prompts")) {
    const auto steps = static_cast<int64_t>(prompt["greedy_token_ids"].size());
    expect_golden(merged.run(prompt["token_ids"].get<std::vector<int32_t>>(), steps), prompt);
  }
  for (const char* adapter : {"fused-r4", "all-r8", "only-up", "dora-r4"}) {
    expect_adapter_parity(merged, "llama", adapter);
  }
  expect_adapter_parity("llama", "fused-r4");
}
TEST(LoraParity, TrainedBiases) { expect_adapter_parity("llama-tied-bias", "bias-r4"); }

TEST(LoraParity, TrainedNorms) {
  expect_adapter_parity("llama", "trained-norms");
  expect_adapter_parity("qwen3", "trained-norms");
}

TEST(LoraParity, BiasOfB) {
  expect_adapter_parity("llama", "lora-bias");
  expect_adapter_parity("llama-tied-bias", "lora-bias");
}
TEST(LoraParity, DoraOfAnEmbedding) {
  expect_adapter_parity("llama", "dora-embedding");
  expect_adapter_parity("llama-tied-bias", "tied-dora-embedding");
}
TEST(LoraParity, TrainedTokens) { expect_adapter_parity("llama", "tokens"); }
TEST(LoraParity, TrainedTokensOfATiedModel) {
  expect_adapter_parity("llama-tied-bias", "tied-tokens");
  expect_adapter_parity("llama-tied-bias", "tied-tokens-of-head");
  expect_adapter_parity("llama-tied-bias", "tied-tokens-of-both");
}
TEST(LoraParity, PairsOfATiedModel) {
  expect_adapter_parity("llama-tied-bias", "tied-embedding-r4");
  expect_adapter_parity("llama-tied-bias", "tied-head-r4");
  expect_adapter_parity("llama-tied-bias", "tied-embedding-and-head-r4");
}
TEST(LoraParity, WholeWeightsOfATiedModel) {
  expect_adapter_parity("llama-tied-bias", "tied-trained-embedding");
  expect_adapter_parity("llama-tied-bias", "tied-trained-head");
}
TEST(LoraParity, EnsureWeightTying) {
  expect_adapter_parity("llama-tied-bias", "tied-together-r4");
  expect_adapter_parity("llama-tied-bias", "tied-together-dora");
  expect_adapter_parity("llama-tied-bias", "tied-together-trained");
}

TEST(LoraParity, EveryGoldenAdapterIsCovered) {
  const std::set<std::string> covered = {"llama/all-r8",
                                         "llama/dora-embedding",
                                         "llama/dora-r4",
                                         "llama/embed-and-head",
                                         "llama/fused-r4",
                                         "llama/lora-bias",
                                         "llama/only-q",
                                         "llama/only-up",
                                         "llama/qv-r4",
                                         "llama/rank-pattern",
                                         "llama/regex-patterns",
                                         "llama/rslora-r16",
                                         "llama/tokens",
                                         "llama/trained-head",
                                         "llama/trained-norms",
                                         "llama/trained-strides",
                                         "qwen2/all-r8",
                                         "qwen2/mlp-r2",
                                         "qwen3/attn-r8",
                                         "qwen3/trained-norms",
                                         "llama-tied-bias/bias-r4",
                                         "llama-tied-bias/lora-bias",

                                         "llama-tied-bias/tied-dora-embedding",
                                         "llama-tied-bias/tied-embedding-and-head-r4",
                                         "llama-tied-bias/tied-embedding-r4",
                                         "llama-tied-bias/tied-head-r4",
                                         "llama-tied-bias/tied-together-dora",
                                         "llama-tied-bias/tied-together-r4",
                                         "llama-tied-bias/tied-together-trained",
                                         "llama-tied-bias/tied-tokens",
                                         "llama-tied-bias/tied-tokens-of-both",
                                         "llama-tied-bias/tied-tokens-of-head",
                                         "llama-tied-bias/tied-trained-embedding",
                                         "llama-tied-bias/tied-trained-head"};
  for (const std::string model : {"llama", "llama-tied-bias", "qwen2", "qwen3"}) {
    for (const std::string& adapter : adapters_of(model))
      EXPECT_TRUE(covered.contains(model + "/" + adapter)) << model << "/" << adapter;
  }
}

class LoraBatch : public ::testing::TestWithParam<std::tuple<const char*, DType>> {
 protected:
  const std::string folder_ = model_folder(std::get<0>(GetParam()));
  EngineConfig config_ = storing(std::get<1>(GetParam()), 512);
};

TEST_P(LoraBatch, LORA_28_EachRequestIsTheSameAloneAmongOthersAndInChunks) {
  ParityModel model(folder_, config_);
  std::vector<uint64_t> ids = {0};
  for (const std::string& adapter : adapters_of(std::get<0>(GetParam()))) {
    ids.push_back(model.load_adapter(folder_ + "/" + adapter));
  }
  std::vector<ParityModel::Work> works;
  for (size_t i = 0; i < std::max<size_t>(16, ids.size() + ids.size() / 2); ++i) {  // some have two requests
    const auto length = static_cast<int64_t>(1 + (i * 29) % 83);
    works.push_back({prompt_of(length, static_cast<int32_t>(31 + i)), 4 + static_cast<int64_t>(i % 5), 1 << 20,
                     ids[i % ids.size()]});
  }
  std::vector<ParityModel::Answer> alone;
  for (const ParityModel::Work& work : works) {
    alone.push_back(model.run(work.prompt, work.steps, work.chunk, work.adapter));
  }
  for (const int64_t chunk : {int64_t{1} << 20, int64_t{16}, int64_t{7}, int64_t{1}}) {
    for (ParityModel::Work& work : works) work.chunk = chunk;
    const std::vector<ParityModel::Answer> together = model.run_together(works);
    for (size_t i = 0; i < works.size(); ++i) {
      SCOPED_TRACE("chunk " + std::to_string(chunk) + ", request " + std::to_string(i));
      expect_same_answer(together[i], alone[i]);
    }
  }
  // The adapters do something, and the base model is the one that never saw them.
  ParityModel untouched(folder_, config_);
  expect_same_answer(alone[0], untouched.run(works[0].prompt, works[0].steps));
  std::set<float> firsts;
  for (const uint64_t id : ids) firsts.insert(model.run(prompt_of(20), 1, 1 << 20, id).last[7]);
  EXPECT_EQ(firsts.size(), ids.size());
}

std::string batch_name(const ::testing::TestParamInfo<LoraBatch::ParamType>& info) {
  std::string name = std::string(std::get<0>(info.param)) + "_" + std::string(dtype_name(std::get<1>(info.param)));
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, LoraBatch,
                         ::testing::Combine(::testing::Values("llama", "llama-tied-bias", "qwen2", "qwen3"),
                                            ::testing::Values(DType::kFloat32, DType::kBFloat16)),
                         batch_name);

/// Widening bfloat16 is exact, so with every weight rounded both storage types give the same sums; a rounded cache
/// moves scores by its relative error of 2^-9 times their size.
TEST(LoraParity, AgreesInBfloat16WithTheRoundedWeights) {
  constexpr double kBfloat16CacheBound = 0.08;
  const WidenedWeights widened;
  for (const std::string name : {"llama", "llama-tied-bias", "qwen2", "qwen3"}) {
    const std::string rounded = rounded_copy(model_folder(name));
    ParityModel reference(rounded, storing(DType::kFloat32));
    EngineConfig config = storing(DType::kBFloat16);
    config.kv_cache_dtype = DType::kFloat32;
    ParityModel exact_cache(rounded, config);
    config.kv_cache_dtype = DType::kBFloat16;
    ParityModel rounded_cache(rounded, config);
    for (const std::string& adapter : adapters_of(name)) {
      SCOPED_TRACE(name + "/" + adapter);
      const std::string folder = rounded_copy(model_folder(name) + "/" + adapter);
      const auto run = [&](ParityModel& model) {
        return model.run(prompt_of(120, 53), 1, 1 << 20, model.load_adapter(folder));
      };
      const ParityModel::Answer expected = run(reference);
      expect_same_answer(run(exact_cache), expected);
      const ParityModel::Answer bounded = run(rounded_cache);
      for (size_t i = 0; i < expected.last.size(); ++i) {
        ASSERT_NEAR(bounded.last[i], expected.last[i], kBfloat16CacheBound);
      }
    }
  }
}

}  // namespace
}  // namespace quire::testing
