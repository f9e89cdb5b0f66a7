// A merged model answers as PEFT did with the adapter beside the base.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors_writer.h"
#include "checkpoint/test_files.h"
#include "lora/adapter_merge_folder.h"
#include "parity.h"
#include "tensor/convert.h"

namespace quire::testing {
namespace {

namespace fs = std::filesystem;

/// The weights of a folder as float32, so that the merge rounds nothing.
void write_widened(const fs::path& from, const fs::path& to) {
  const Checkpoint checkpoint = std::move(open_checkpoint(from)).value();
  std::vector<SafetensorsTensor> tensors;
  for (const WeightInfo& weight : checkpoint.weights->tensors()) {
    const auto bytes = static_cast<size_t>(weight.rows() * weight.cols()) * sizeof(float);
    tensors.push_back({weight.name, "F32", weight.shape, bytes});
  }
  auto writer = std::move(SafetensorsWriter::create(to / "model.safetensors", tensors)).value();
  std::vector<float> scratch;
  for (const WeightInfo& weight : checkpoint.weights->tensors()) {
    const MatrixView view = std::move(checkpoint.weights->read_rows(weight, 0, weight.rows(), scratch)).value();
    std::vector<float> row(static_cast<size_t>(view.cols));
    for (int64_t i = 0; i < view.rows; ++i) {
      row_to_float(view, i, row.data());
      ASSERT_TRUE(writer.append(std::as_bytes(std::span(row))).ok());
    }
  }
  ASSERT_TRUE(writer.finish().ok());
  fs::copy_file(from / "config.json", to / "config.json");
}

/// golden.json with the adapter's answers in the place of the base's.
void write_golden(const fs::path& model, const std::string& adapter, const fs::path& merged) {
  nlohmann::json golden = nlohmann::json::parse(std::ifstream(model / "golden.json"));
  golden["prompts"] = read_adapter_prompts(model.string(), adapter);
  golden.erase("adapters");
  std::ofstream(merged / "golden.json") << golden;
}

class GoldenMerge : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenMerge, EqualsTheAdapterBesideTheBase) {
  const std::string model = fs::path(GetParam()).parent_path(), adapter = fs::path(GetParam()).filename();
  const fs::path folder = fs::path(golden_models()) / model;
  const test::TemporaryFolder base, out;
  write_widened(folder, base.path());
  const Checkpoint checkpoint = std::move(open_checkpoint(base.path())).value();
  const auto files = std::move(AdapterFiles::open(folder / adapter)).value();
  ThreadPool pool;
  MergeOptions options;
  options.max_shard_bytes = 100'000;
  const fs::path merged = out.path() / "merged";
  const auto summary = merge_adapter(checkpoint, *files, merged, pool, options);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_GT(summary->changed_tensors, 0);
  EXPECT_GT(summary->shards, 1);
  write_golden(folder, adapter, merged);
  EngineConfig config;
  config.dtype = DType::kFloat32;
  expect_parity(merged.string(), config);
  // A second merge to the same place is refused, and leaves nothing beside it.
  EXPECT_FALSE(merge_adapter(checkpoint, *files, merged, pool, options).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(out.path()), fs::directory_iterator()), 1);
}

INSTANTIATE_TEST_SUITE_P(
    Adapters, GoldenMerge,
    ::testing::Values("llama/qv-r4", "llama/all-r8", "llama/rslora-r16", "llama/rank-pattern", "llama/dora-r4",
                      "llama/trained-head", "llama/embed-and-head", "llama/tokens", "llama/dora-embedding",
                      "llama-tied-bias/lora-bias", "llama-tied-bias/tied-embedding-r4", "llama-tied-bias/tied-head-r4",
                      "llama-tied-bias/tied-embedding-and-head-r4", "llama-tied-bias/tied-trained-embedding",
                      "llama-tied-bias/tied-together-r4", "llama-tied-bias/tied-together-dora",
                      "llama-tied-bias/tied-together-trained", "llama-tied-bias/tied-trained-head",
                      "llama-tied-bias/tied-tokens", "llama-tied-bias/tied-tokens-of-head",
                      "llama-tied-bias/tied-tokens-of-both", "llama-tied-bias/tied-dora-embedding",
                      "llama-tied-bias/bias-r4", "qwen2/all-r8", "qwen2/mlp-r2", "qwen3/attn-r8", "llama/trained-norms",
                      "qwen3/trained-norms", "llama/only-up", "llama/regex-patterns"),
    [](const auto& info) {
      std::string name = info.param;
      for (char& c : name) c = c == '-' || c == '/' ? '_' : c;
      return name;
    });

TEST(LoraMerge, RefusesABiasOfBWhereTheBaseHasNoBias) {
  const fs::path model = fs::path(golden_models()) / "llama";
  const Checkpoint checkpoint = std::move(open_checkpoint(model)).value();
  const auto files = std::move(AdapterFiles::open(model / "lora-bias")).value();
  const test::TemporaryFolder out;
  ThreadPool pool;
  const auto summary = merge_adapter(checkpoint, *files, out.path() / "merged", pool, {});
  ASSERT_FALSE(summary.ok());
  EXPECT_NE(summary.error().message.find("has none in the base model"), std::string::npos) << summary.error().message;
  EXPECT_TRUE(fs::is_empty(out.path()));
}

TEST(LoraMerge, RefusesAnAdapterOfAnotherModel) {
  const fs::path models = golden_models();
  const Checkpoint checkpoint = std::move(open_checkpoint(models / "qwen3")).value();
  const auto files = std::move(AdapterFiles::open(models / "llama" / "all-r8")).value();
  const test::TemporaryFolder out;
  ThreadPool pool;
  const auto summary = merge_adapter(checkpoint, *files, out.path() / "merged", pool, {});
  ASSERT_FALSE(summary.ok());
  EXPECT_NE(summary.error().message.find("another base model"), std::string::npos) << summary.error().message;
  EXPECT_TRUE(fs::is_empty(out.path()));
}

}  // namespace
}  // namespace quire::testing
