// Adapter folders as they occur: opened into modules, or refused with a sentence. Case ids are those of the LoRA case
// list.
#include "lora/adapter_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "adapter_builder.h"
#include "lora/adapter_tying.h"

namespace quire::test {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kModel = "base_model.model.model.";
const std::string kQueryName = "model.layers.0.self_attn.q_proj";
const std::string kTrainedQuery = "base_model.model." + kQueryName;
const std::string kEmbedding = kModel + "embed_tokens";
const std::string kHead = "base_model.model.lm_head";

std::shared_ptr<const AdapterFiles> opened(const AdapterBuilder& builder) {
  auto files = builder.open();
  EXPECT_TRUE(files.ok()) << (files.ok() ? "" : files.error().message);
  return files.ok() ? std::move(files).value() : nullptr;
}

AdapterBuilder with_query() {
  AdapterBuilder builder;
  return builder.pair(kTrainedQuery);
}

TEST(AdapterFiles, OpensAPlainAdapter) {
  const auto files = opened(with_query());
  ASSERT_NE(files, nullptr);
  EXPECT_EQ(files->base_model_name(), "tiny");
  ASSERT_EQ(files->modules().size(), 1u);
  const AdapterModule& module = files->modules()[0];
  EXPECT_EQ(module.path, kQueryName);
  EXPECT_EQ(module.rank, 2);
  EXPECT_FLOAT_EQ(module.scale, 2.0f);
  EXPECT_EQ(module.a->shape, (std::vector<int64_t>{2, 8}));
  EXPECT_EQ(module.b->shape, (std::vector<int64_t>{8, 2}));
  EXPECT_FALSE(module.embedding);
  EXPECT_EQ(files->max_rank(), 2);
  EXPECT_EQ(files->stored_bytes(), 2 * 16 * 4);
}

TEST(AdapterFiles, OutliveTheirFiles) {
  const TemporaryFolder folder;
  with_query().write(folder);
  const auto files = AdapterFiles::open(folder.path());
  ASSERT_TRUE(files.ok());
  const AdapterFiles& adapter = **files;
  std::vector<float> scratch;
  const auto first_value = [&] {
    const auto rows = adapter.tensors().read_rows(*adapter.modules()[0].a, 0, 2, scratch);
    EXPECT_TRUE(rows.ok());
    return static_cast<const float*>(rows.value().data)[15];
  };
  const float before = first_value();
  adapter.tensors().release(*adapter.modules()[0].a);
  std::filesystem::resize_file(folder.path() / "adapter_model.safetensors", 0);
  EXPECT_EQ(first_value(), before);
}

TEST(AdapterFiles, TakesNamesAsToolsWriteThem) {
  for (const char* prefix : {"base_model.model.model.", "model.", "", "base_model.model.model.language_model.",
                             "base_model.model.language_model.model.", "base_model.model."}) {
    for (const char* adapter : {"", "default", "mine"}) {
      AdapterBuilder builder;
      const auto files = opened(builder.pair(std::string(prefix) + "layers.0.self_attn.q_proj", 2, adapter));
      ASSERT_NE(files, nullptr) << prefix << adapter;
      EXPECT_EQ(files->modules()[0].path, kQueryName);
    }
  }
}

TEST(AdapterFiles, OrdersLayersByNumber) {
  AdapterBuilder builder;
  for (const int layer : {10, 9, 0, 2}) builder.pair(kModel + "layers." + std::to_string(layer) + ".self_attn.q_proj");
  const auto files = opened(builder);
  ASSERT_NE(files, nullptr);
  std::string order;
  for (const AdapterModule& module : files->modules())
    order += module.path.substr(13, module.path.find(".self") - 13) + " ";
  EXPECT_EQ(order, "0 2 9 10 ");
}

TEST(AdapterFiles, TakesHalfPrecisionTensorsAndNoOthers) {
  for (const char* dtype : {"F32", "F16", "BF16"}) {
    AdapterBuilder builder;
    builder.tensor(kTrainedQuery + ".lora_A.weight", {2, 8}, 1, dtype)
        .tensor(kTrainedQuery + ".lora_B.weight", {8, 2}, 2);
    EXPECT_EQ(builder.refusal(), "") << dtype;
  }
  TemporaryFolder folder;
  folder.write("adapter_config.json", with_query().config_text());
  folder.write("adapter_model.safetensors",
               safetensors(R"({"base_model.model.model.q_proj.lora_A.weight":{"dtype":"I32","shape":[2,2],)"
                           R"("data_offsets":[0,16]}})",
                           std::string(16, '\0')));
  EXPECT_THAT(AdapterFiles::open(folder.path()).error().message, AllOf(HasSubstr("I32"), HasSubstr("q_proj.lora_A")));
}

TEST(AdapterFiles, LORA_16_BadPathsAreRefusedWithThePath) {
  TemporaryFolder folder;
  const auto message = [&](const std::filesystem::path& path) { return AdapterFiles::open(path).error().message; };
  const auto missing = folder.path() / "missing";
  EXPECT_EQ(AdapterFiles::open(missing).error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(message(missing), AllOf(HasSubstr(missing.string()), HasSubstr("not found")));
  EXPECT_THAT(message(folder.path()), AllOf(HasSubstr(folder.path().string()), HasSubstr("no adapter_config.json")));
  const auto file = folder.write("adapter_model.safetensors", with_query().weights());
  EXPECT_THAT(message(file), AllOf(HasSubstr(file.string()), HasSubstr("is a file")));
  EXPECT_FALSE(AdapterFiles::open("").ok());
  folder.write("adapter_config.json", with_query().config_text());
  EXPECT_TRUE(AdapterFiles::open(folder.path()).ok());
  std::filesystem::remove(file);
  EXPECT_THAT(message(folder.path()), HasSubstr("neither adapter_model.safetensors nor"));
  folder.write("adapter_model.bin", "PK");
  EXPECT_THAT(message(folder.path()), AllOf(HasSubstr("adapter_model.bin"), HasSubstr("save_pretrained")));
}

TEST(AdapterFiles, OpensShardsThatAnIndexNames) {
  AdapterBuilder first, second;
  first.pair(kTrainedQuery);
  second.pair(kModel + "layers.1.self_attn.v_proj");
  TemporaryFolder folder;
  folder.write("adapter_config.json", first.config_text());
  folder.write("adapter_model-00001-of-00002.safetensors", first.weights());
  folder.write("adapter_model-00002-of-00002.safetensors", second.weights());
  ordered_json map;
  map[kTrainedQuery + ".lora_A.weight"] = "adapter_model-00001-of-00002.safetensors";
  map[kModel + "layers.1.self_attn.v_proj.lora_A.weight"] = "adapter_model-00002-of-00002.safetensors";
  folder.write("adapter_model.safetensors.index.json", ordered_json{{"weight_map", map}}.dump());
  const auto files = AdapterFiles::open(folder.path());
  ASSERT_TRUE(files.ok()) << files.error().message;
  EXPECT_EQ((*files)->modules().size(), 2u);
  std::filesystem::remove(folder.path() / "adapter_model-00002-of-00002.safetensors");
  EXPECT_THAT(AdapterFiles::open(folder.path()).error().message, HasSubstr("adapter_model-00002-of-00002"));
}

TEST(AdapterFiles, LORA_01_RsLoraScalesByTheRoot) {
  AdapterBuilder builder = with_query();
  builder.field("use_rslora", true).field("lora_alpha", 3);
  EXPECT_FLOAT_EQ(opened(builder)->modules()[0].scale, 3 / std::sqrt(2.0f));
}

TEST(AdapterFiles, LORA_03_RanksMustBeTheConfigs) {
  AdapterBuilder builder = with_query();
  builder.pair(kModel + "layers.1.self_attn.q_proj", 4);
  EXPECT_THAT(builder.refusal(),
              AllOf(HasSubstr("layers.1.self_attn.q_proj"), HasSubstr("rank 4"), HasSubstr("says 2")));
  builder.field("rank_pattern", {{"layers.1.self_attn.q_proj", 4}}).field("alpha_pattern", {{".*\\.1\\..*", 32}});
  const auto files = opened(builder);
  ASSERT_NE(files, nullptr);
  EXPECT_EQ(files->modules()[1].rank, 4);
  EXPECT_FLOAT_EQ(files->modules()[1].scale, 8.0f);
  builder.field("rank_pattern", {{"layers.1.self_attn.q_proj", 3}});
  EXPECT_THAT(builder.refusal(), HasSubstr("rank_pattern 'layers.1.self_attn.q_proj'"));
}

TEST(AdapterFiles, LORA_07_CopiesOfTheBaseAreNoChange) {
  AdapterBuilder builder = with_query();
  builder.tensor(kHead + ".base_layer.weight", {16, 8});
  const auto files = opened(builder);
  ASSERT_NE(files, nullptr);
  const AdapterModule* head = find_module(*files, "lm_head");
  ASSERT_NE(head, nullptr);
  EXPECT_EQ(head->weight, nullptr);
  EXPECT_EQ(head->base_copy->shape, (std::vector<int64_t>{16, 8}));
  AdapterBuilder only;
  EXPECT_THAT(only.tensor(kHead + ".base_layer.weight", {16, 8}).refusal(), HasSubstr("empty adapter"));
}

TEST(AdapterFiles, LORA_09_AllLinearTakesTheModulesThatTheTensorsName) {
  AdapterBuilder builder = with_query();
  builder.field("target_modules", "all-linear").pair(kModel + "layers.0.mlp.down_proj");
  EXPECT_EQ(opened(builder)->modules().size(), 2u);
}

TEST(AdapterFiles, LORA_11_TargetModulesWithAParent) {
  AdapterBuilder builder = with_query();
  builder.field("target_modules", {"self_attn.q_proj", "mlp.gate_proj"}).pair(kModel + "layers.0.mlp.gate_proj");
  EXPECT_EQ(opened(builder)->modules().size(), 2u);
}

TEST(AdapterFiles, LORA_32_PartOfAFusedProjectionIsEnough) {
  AdapterBuilder builder;
  builder.field("target_modules", {"up_proj"}).pair(kModel + "layers.0.mlp.up_proj");
  EXPECT_EQ(opened(builder)->modules().size(), 1u);
}

TEST(AdapterFiles, TensorsThatTheConfigLeavesOutAreRefused) {
  AdapterBuilder builder = with_query();
  EXPECT_THAT(builder.field("target_modules", {"v_proj"}).refusal(),
              AllOf(HasSubstr("q_proj"), HasSubstr("target_modules")));
  builder.field("target_modules", {"q_proj"});
  EXPECT_EQ(builder.refusal(), "");
  EXPECT_THAT(builder.field("exclude_modules", {"q_proj"}).refusal(), HasSubstr("exclude_modules"));
  builder.without("exclude_modules").field("layers_to_transform", {1});
  EXPECT_THAT(builder.refusal(), HasSubstr("layers_to_transform"));
}

TEST(AdapterFiles, PatternsMatchThePathAsTrained) {
  AdapterBuilder builder;
  builder.pair("base_model.model.model.language_model.layers.0.self_attn.q_proj");
  EXPECT_EQ(builder.field("target_modules", "model\\.language_model\\..*q_proj").refusal(), "");
  EXPECT_NE(builder.field("target_modules", "model\\.vision\\..*q_proj").refusal(), "");
}

TEST(AdapterFiles, UnknownTensorsAreRefusedAndListed) {
  AdapterBuilder builder = with_query();
  builder.tensor(kTrainedQuery + ".lora_A.x.y.z", {2, 8});
  EXPECT_THAT(builder.refusal(), HasSubstr(".lora_A.x.y.z"));
  for (int i = 0; i < 5; ++i) builder.tensor("prompt_embeddings" + std::to_string(i), {2, 8});
  EXPECT_THAT(builder.refusal(), HasSubstr("and 3 more"));
  AdapterBuilder other = with_query();
  EXPECT_THAT(other.tensor(kTrainedQuery + ".lora_C.weight", {2, 8}).refusal(), HasSubstr("lora_C"));
}

TEST(AdapterFiles, HalfAPairIsRefused) {
  AdapterBuilder builder = with_query();
  EXPECT_THAT(builder.without_tensor(kTrainedQuery + ".lora_B.weight").refusal(), HasSubstr("no lora_B"));
  builder = with_query();
  EXPECT_THAT(builder.without_tensor(kTrainedQuery + ".lora_A.weight").refusal(), HasSubstr("no lora_A"));
}

TEST(AdapterFiles, MisshapenPairsAreRefused) {
  const std::pair<std::vector<int64_t>, std::vector<int64_t>> shapes[] = {
      {{2, 8}, {8, 3}}, {{2, 8}, {2, 8}}, {{16}, {8, 2}}, {{2, 8}, {8, 2, 1}}, {{0, 8}, {8, 0}}, {{2, 0}, {8, 2}}};
  for (const auto& [a, b] : shapes) {
    AdapterBuilder builder;
    builder.tensor(kTrainedQuery + ".lora_A.weight", a).tensor(kTrainedQuery + ".lora_B.weight", b);
    EXPECT_THAT(builder.refusal(), HasSubstr("q_proj.lora_"));
  }
}

TEST(AdapterFiles, ValuesThatAreNotNumbersAreRefused) {
  for (const float value : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    for (const char* dtype : {"F32", "F16", "BF16"}) {
      std::vector<float> values(16, 0.5f);
      values[11] = value;
      AdapterBuilder builder = with_query();
      builder.tensor(kTrainedQuery + ".lora_B.weight", {8, 2}, values, dtype);
      EXPECT_THAT(builder.refusal(), AllOf(HasSubstr("lora_B"), HasSubstr("not numbers"))) << dtype << value;
    }
  }
}

TEST(AdapterFiles, SeveralAdaptersInOneFileAreRefused) {
  AdapterBuilder builder;
  builder.pair(kTrainedQuery, 2, "one").pair(kModel + "layers.1.self_attn.q_proj", 2, "two");
  EXPECT_THAT(builder.refusal(), AllOf(HasSubstr("'one'"), HasSubstr("'two'")));
}

TEST(AdapterFiles, LORA_04_DoraNeedsFlagAndMagnitudes) {
  AdapterBuilder builder = with_query();
  EXPECT_THAT(builder.field("use_dora", true).refusal(), HasSubstr("no lora_magnitude_vector"));
  for (const char* ending : {"", ".weight", ".default", ".default.weight"}) {
    AdapterBuilder dora = with_query();
    dora.field("use_dora", true).tensor(kTrainedQuery + ".lora_magnitude_vector" + ending, {8});
    EXPECT_NE(opened(dora)->modules()[0].magnitude, nullptr) << ending;
    EXPECT_THAT(dora.field("use_dora", false).refusal(), HasSubstr("use_dora"));
  }
  EXPECT_THAT(builder.tensor(kTrainedQuery + ".lora_magnitude_vector", {4}).refusal(), HasSubstr("must be [8]"));
  builder.field("use_dora", true).tensor(kModel + "norm.lora_magnitude_vector", {8});
  EXPECT_THAT(builder.refusal(), HasSubstr("lora_magnitude_vector"));
}

TEST(AdapterFiles, LoraBiasNeedsItsFlag) {
  AdapterBuilder builder = with_query();
  EXPECT_THAT(builder.field("lora_bias", true).refusal(), HasSubstr("lora_bias"));
  builder.tensor(kTrainedQuery + ".lora_B.bias", {8});
  EXPECT_NE(opened(builder)->modules()[0].lora_bias, nullptr);
  EXPECT_THAT(builder.field("lora_bias", false).refusal(), HasSubstr("lora_B.bias"));
}

TEST(AdapterFiles, TrainedBiasesReplaceTheBases) {
  for (const char* ending : {".bias", ".base_layer.bias"}) {
    AdapterBuilder builder = with_query();
    builder.tensor(kTrainedQuery + ending, {8});
    EXPECT_THAT(builder.refusal(), HasSubstr("bias in adapter_config.json is none"));
    for (const char* kind : {"all", "lora_only"}) {
      EXPECT_NE(opened(builder.field("bias", kind))->modules()[0].bias, nullptr);
    }
  }
  AdapterBuilder builder = with_query();
  builder.field("bias", "all").tensor(kModel + "layers.0.self_attn.k_proj.bias", {8});
  const auto files = opened(builder);
  EXPECT_NE(find_module(*files, "model.layers.0.self_attn.k_proj")->bias, nullptr);
  EXPECT_EQ(find_module(*files, "model.layers.0.self_attn.k_proj")->a, nullptr);
}

TEST(AdapterFiles, AnEntryOfModulesToSaveIsTheEndOfAnyNameAsInPeft) {
  AdapterBuilder builder = with_query();
  builder.tensor(kModel + "norm.weight", {8}).tensor(kModel + "layers.0.input_layernorm.weight", {8});
  builder.field("modules_to_save", {"norm"});
  EXPECT_NE(find_module(*opened(builder), "model.layers.0.input_layernorm")->weight, nullptr);
  builder.field("modules_to_save", {"model.norm"});
  EXPECT_THAT(builder.refusal(), HasSubstr("input_layernorm.weight"));
  builder.field("modules_to_save", {"norm", ""});
  EXPECT_THAT(builder.refusal(), HasSubstr("modules_to_save names ''"));
  builder.field("modules_to_save", {"norm"}).tensor(kModel + "layers.0.block.up.weight", {8, 8});
  EXPECT_THAT(builder.refusal(), HasSubstr("block.up.weight"));
  builder.field("modules_to_save", {"norm", "block"});
  EXPECT_EQ(builder.refusal(), "") << "what lies in a saved module is saved with it";
}

TEST(AdapterFiles, LORA_06_ModulesToSaveReplaceWholeWeights) {
  AdapterBuilder builder = with_query();
  builder.tensor(kModel + "norm.weight", {8});
  EXPECT_THAT(builder.refusal(), HasSubstr("modules_to_save"));
  builder.field("modules_to_save", {"norm", "lm_head"});
  EXPECT_THAT(builder.refusal(), AllOf(HasSubstr("modules_to_save"), HasSubstr("'lm_head'")));
  builder.tensor(kHead + ".weight", {16, 8});
  // Written twice, as PEFT does with save_embedding_layers.
  builder.tensor(kHead + ".modules_to_save.default.weight", {16, 8})
      .tensor(kHead + ".original_module.weight", {16, 8}, 5);
  const auto files = opened(builder);
  ASSERT_NE(files, nullptr);
  EXPECT_NE(find_module(*files, "lm_head")->weight, nullptr);
  EXPECT_NE(find_module(*files, "lm_head")->base_copy, nullptr);
  EXPECT_FALSE(find_module(*files, "lm_head")->changes_tied_head);
  EXPECT_NE(find_module(*files, "model.norm")->weight, nullptr);
  builder.tensor(kHead + ".modules_to_save.default.weight", {16, 8}, 6);
  EXPECT_THAT(builder.refusal(), HasSubstr("differ"));
}

TEST(AdapterFiles, LORA_08_EmbeddingsHaveTheirOwnPair) {
  for (const char* ending : {"", ".default", ".weight"}) {
    AdapterBuilder builder;
    builder.field("target_modules", {"embed_tokens", "lm_head"});
    builder.tensor(kEmbedding + ".lora_embedding_A" + ending, {2, 16})
        .tensor(kEmbedding + ".lora_embedding_B" + ending, {8, 2});
    builder.tensor(kEmbedding + ".base_layer.weight", {16, 8});
    builder.tensor(kHead + ".lora_A.weight", {2, 8}).tensor(kHead + ".lora_B.weight", {16, 2});
    const auto files = opened(builder);
    ASSERT_NE(files, nullptr);
    const AdapterModule* embedding = find_module(*files, "model.embed_tokens");
    EXPECT_TRUE(embedding->embedding);
    EXPECT_EQ(embedding->a->shape, (std::vector<int64_t>{2, 16}));
    EXPECT_NE(embedding->base_copy, nullptr);
    EXPECT_FALSE(embedding->changes_tied_head);
    EXPECT_FALSE(find_module(*files, "lm_head")->embedding);
    builder.without_tensor(kHead + ".lora_A.weight").without_tensor(kHead + ".lora_B.weight");
    EXPECT_THAT(builder.field("lora_bias", true).refusal(), HasSubstr("embedding, which cannot have lora_bias"));
  }
  AdapterBuilder mixed;
  mixed.field("target_modules", {"embed_tokens"}).tensor(kEmbedding + ".lora_embedding_A", {2, 16});
  EXPECT_THAT(mixed.tensor(kEmbedding + ".lora_B.weight", {8, 2}).refusal(), HasSubstr("embed_tokens.lora_B"));
}

TEST(AdapterFiles, AWeightIsChangedInOneWay) {
  AdapterBuilder builder;
  builder.field("target_modules", {"lm_head"}).pair(kHead).tensor(kHead + ".weight", {8, 8});
  EXPECT_THAT(builder.refusal(), HasSubstr("another way"));
}

TEST(AdapterFiles, AResizedVocabularyIsSharedWithATiedHead) {
  AdapterBuilder builder = with_query();
  builder.tensor(kEmbedding + ".weight", {20, 8});
  EXPECT_TRUE(find_module(*opened(builder), "model.embed_tokens")->changes_tied_head);
  builder.tensor(kHead + ".weight", {20, 8});
  EXPECT_FALSE(find_module(*opened(builder), "model.embed_tokens")->changes_tied_head);
  AdapterBuilder saved = with_query();
  saved.tensor(kEmbedding + ".weight", {16, 8}).field("modules_to_save", {"embed_tokens"});
  EXPECT_FALSE(find_module(*opened(saved), "model.embed_tokens")->changes_tied_head);
}

TEST(AdapterFiles, TrainableTokensReplaceRows) {
  const std::string rows = ".token_adapter.trainable_tokens_delta";
  AdapterBuilder builder = with_query();
  builder.tensor(kEmbedding + rows, {2, 8});
  EXPECT_THAT(builder.refusal(), HasSubstr("trainable_token_indices"));
  builder.field("trainable_token_indices", {5, 9});
  auto files = opened(builder);
  EXPECT_EQ(find_module(*files, "model.embed_tokens")->token_ids, (std::vector<int64_t>{5, 9}));
  EXPECT_TRUE(find_module(*files, "model.embed_tokens")->changes_tied_head);
  // A dictionary; the head named with the same ids follows the embedding when no rows of its own are saved.
  EXPECT_EQ(builder.field("trainable_token_indices", {{"embed_tokens", {5, 9}}, {"lm_head", {5, 9}}}).refusal(), "");
  builder.field("trainable_token_indices", {{"embed_tokens", {5, 9}}, {"lm_head", {7}}});
  EXPECT_THAT(builder.refusal(), AllOf(HasSubstr("trainable_token_indices"), HasSubstr("lm_head")));
  builder.tensor(kHead + rows, {1, 8}, 4);
  files = opened(builder);
  EXPECT_EQ(find_module(*files, "lm_head")->token_ids, (std::vector<int64_t>{7}));
  EXPECT_FALSE(find_module(*files, "model.embed_tokens")->changes_tied_head);
  EXPECT_THAT(builder.field("trainable_token_indices", {5, 9}).refusal(), HasSubstr("lm_head"));
}

TEST(AdapterFiles, TrainableTokensSavedTwiceForATiedHeadAreOne) {
  const std::string rows = ".token_adapter.trainable_tokens_delta";
  AdapterBuilder builder = with_query();
  builder.field("trainable_token_indices", {5, 9});
  builder.tensor(kEmbedding + rows, {2, 8}).tensor(kHead + rows, {2, 8});
  builder.tensor(kHead + ".token_adapter.base_layer.weight", {16, 8});
  const auto files = opened(builder);
  ASSERT_NE(files, nullptr);
  EXPECT_TRUE(find_module(*files, "model.embed_tokens")->changes_tied_head);
  EXPECT_EQ(find_module(*files, "lm_head")->token_rows, nullptr);
}

/// The builder's `values` of a [rows, cols] tensor, transposed.
std::vector<float> transposed(const std::vector<float>& values, size_t rows, size_t cols) {
  std::vector<float> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i % cols * rows + i / cols] = values[i];
  return result;
}

const char* fit_of(const AdapterFiles& files) {
  const bool tied = check_needs_head("x", files.modules(), true).ok();
  const bool own = check_needs_head("x", files.modules(), false).ok();
  if (tied && own) return "any";
  return tied ? "tied" : own ? "own" : "none";
}

TEST(AdapterFiles, ATiedHeadIsNotChangedByItselfAndWithTheEmbedding) {
  AdapterBuilder tokens = with_query();
  tokens.field("trainable_token_indices", {5, 9}).field("target_modules", {"q_proj", "lm_head"});
  tokens.tensor(kEmbedding + ".token_adapter.trainable_tokens_delta", {2, 8});
  EXPECT_STREQ(fit_of(*opened(tokens)), "any");
  tokens.tensor(kHead + ".lora_A.weight", {2, 8}).tensor(kHead + ".lora_B.weight", {16, 2});
  EXPECT_STREQ(fit_of(*opened(tokens)), "own");
  EXPECT_THAT(check_needs_head("x", opened(tokens)->modules(), true).error().message,
              AllOf(HasSubstr("'model.embed_tokens'"), HasSubstr("'lm_head'")));
  AdapterBuilder resized = with_query();
  resized.field("target_modules", {"q_proj", "lm_head"}).tensor(kEmbedding + ".weight", {16, 8});
  resized.tensor(kHead + ".lora_A.weight", {2, 8}).tensor(kHead + ".lora_B.weight", {16, 2});
  EXPECT_STREQ(fit_of(*opened(resized)), "own");
}

TEST(AdapterFiles, EnsureWeightTyingTakesTheHeadsPairThatIsTheEmbeddings) {
  std::vector<float> a(2 * 16), b(8 * 2);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i) / 64;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i) / 32 - 0.25f;
  AdapterBuilder builder;
  builder.field("target_modules", {"embed_tokens", "model.embed_tokens"});
  builder.tensor(kEmbedding + ".lora_embedding_A", {2, 16}, a).tensor(kEmbedding + ".lora_embedding_B", {8, 2}, b);
  EXPECT_STREQ(fit_of(*opened(builder)), "any");
  builder.tensor(kHead + ".lora_A.weight", {2, 8}, transposed(b, 8, 2));
  builder.tensor(kHead + ".lora_B.weight", {16, 2}, transposed(a, 2, 16));
  EXPECT_THAT(builder.refusal(), HasSubstr("lm_head.lora_A.weight' is of a module that is not in target_modules"));
  builder.field("ensure_weight_tying", true);
  EXPECT_NE(find_module(*opened(builder), "lm_head")->a, nullptr);
  EXPECT_STREQ(fit_of(*opened(builder)), "tied");
  EXPECT_THAT(check_needs_head("x", opened(builder)->modules(), false).error().message,
              AllOf(HasSubstr("'lm_head'"), HasSubstr("ensure_weight_tying")));
  builder.tensor(kHead + ".lora_B.weight", {16, 2}, 9);
  EXPECT_THAT(builder.refusal(), AllOf(HasSubstr("not those of the embedding"), HasSubstr("ensure_weight_tying")));
  builder.field("target_modules", {"embed_tokens", "lm_head"});  // as trained on a model with a head of its own
  EXPECT_STREQ(fit_of(*opened(builder)), "own");
  builder.without_tensor(kHead + ".lora_A.weight").without_tensor(kHead + ".lora_B.weight");
  EXPECT_STREQ(fit_of(*opened(builder)), "own");
  EXPECT_THAT(builder.field("ensure_weight_tying", "yes").refusal(), HasSubstr("ensure_weight_tying"));
}

TEST(AdapterFiles, EnsureWeightTyingOfWholeWeightsAndTokens) {
  AdapterBuilder saved = with_query();
  saved.field("ensure_weight_tying", true).field("modules_to_save", {"embed_tokens", "model.embed_tokens"});
  saved.tensor(kEmbedding + ".weight", {16, 8});
  EXPECT_STREQ(fit_of(*opened(saved)), "own");
  saved.tensor(kHead + ".weight", {16, 8});
  EXPECT_STREQ(fit_of(*opened(saved)), "any");

  const std::string rows = ".token_adapter.trainable_tokens_delta";
  AdapterBuilder tokens = with_query();
  tokens.field("ensure_weight_tying", true).field("trainable_token_indices", {{"embed_tokens", {5}}, {"lm_head", {5}}});
  tokens.tensor(kEmbedding + rows, {1, 8});
  EXPECT_STREQ(fit_of(*opened(tokens)), "tied");
  EXPECT_STREQ(fit_of(*opened(tokens.field("ensure_weight_tying", false))), "tied");
  tokens.tensor(kHead + rows, {1, 8}, 4);
  EXPECT_STREQ(fit_of(*opened(tokens)), "any");
  EXPECT_STREQ(fit_of(*opened(tokens.field("ensure_weight_tying", true))), "own");
}

TEST(AdapterFiles, MisshapenTokenRowsAreRefused) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3, 8}, {16}, {2, 8, 1}}) {
    AdapterBuilder builder = with_query();
    builder.field("trainable_token_indices", {5, 9})
        .tensor(kEmbedding + ".token_adapter.trainable_tokens_delta", shape);
    EXPECT_THAT(builder.refusal(), HasSubstr("trainable_tokens_delta"));
  }
}

TEST(AdapterFiles, TheGoldenAdaptersOpen) {
  int adapters = 0;
  for (const auto& model : std::filesystem::directory_iterator(std::string(QUIRE_TESTS_DIR) + "/golden/models")) {
    for (const auto& entry : std::filesystem::directory_iterator(model.path())) {
      if (!entry.is_directory() || !std::filesystem::exists(entry.path() / "adapter_config.json")) continue;
      const auto files = AdapterFiles::open(entry.path());
      ASSERT_TRUE(files.ok()) << files.error().message;
      EXPECT_EQ((*files)->base_model_name(), model.path().filename().string());
      ++adapters;
    }
  }
  EXPECT_GE(adapters, 11);
}

}  // namespace
}  // namespace quire::test
