// Checkpoints of shapes that no kernel was written for, against a decoder in float64; and the same weights in other
// files and types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/test_files.h"
#include "engine/parity.h"
#include "engine/reference_decoder.h"
#include "engine/tiny_checkpoint.h"

namespace quire::testing {
namespace {

constexpr int64_t kSteps = 6;

EngineConfig in_float32() {
  EngineConfig config;
  config.dtype = DType::kFloat32;
  config.threads = 2;
  return config;
}

DType all_float32(const std::string&) { return DType::kFloat32; }

std::vector<int32_t> prompt_for(int64_t vocab, int64_t length) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>((i * i * 31 + 7 * i + 3) % vocab));
  return prompt;
}

/// The prompt's own scores, all scores after it, and each greedy token's score where it was chosen.
void expect_reference(const ParityModel::Answer& answer, const DecoderShape& shape, const TensorMap& tensors,
                      const std::vector<int32_t>& prompt) {
  std::vector<int32_t> tokens = prompt;
  tokens.insert(tokens.end(), answer.greedy.begin(), answer.greedy.end());
  const auto expected = reference_logprobs(shape, tensors, tokens);
  ASSERT_EQ(answer.prompt.size(), prompt.size() - 1);
  for (size_t i = 0; i + 1 < prompt.size(); ++i) {
    ASSERT_NEAR(answer.prompt[i][0].logprob, expected[i][static_cast<size_t>(tokens[i + 1])], 1e-4) << i;
  }
  for (size_t id = 0; id < answer.last.size(); ++id) {
    ASSERT_NEAR(answer.last[id], expected[prompt.size() - 1][id], 1e-4) << "token " << id;
  }
  for (size_t step = 0; step < answer.greedy.size(); ++step) {
    const std::vector<double>& scores = expected[prompt.size() - 1 + step];
    const double best = *std::ranges::max_element(scores);
    ASSERT_NEAR(scores[static_cast<size_t>(answer.greedy[step])], best, 1e-4) << "step " << step;
    ASSERT_NEAR(answer.greedy_logprobs[step][0].logprob, best, 1e-4) << "step " << step;
  }
}

void expect_equal(const ParityModel::Answer& got, const ParityModel::Answer& expected) {
  EXPECT_EQ(got.last, expected.last);
  EXPECT_EQ(got.greedy, expected.greedy);
  ASSERT_EQ(got.prompt.size(), expected.prompt.size());
  for (size_t i = 0; i < got.prompt.size(); ++i) {
    ASSERT_EQ(got.prompt[i][0].logprob, expected.prompt[i][0].logprob) << i;
  }
}

struct Case {
  const char* name;
  DecoderShape shape;
};

/// Shows the case by its name where a test fails.
void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }

const Case kCases[] = {
    {"OddEverything",
     {.vocab = 1003, .hidden = 72, .intermediate = 100, .layers = 1, .heads = 6, .kv_heads = 2, .head_dim = 12}},
    {"HeadsWiderThanHidden",
     {.vocab = 131,
      .hidden = 44,
      .intermediate = 61,
      .layers = 2,
      .heads = 4,
      .kv_heads = 1,
      .head_dim = 20,
      .attention_bias = true,
      .mlp_bias = true}},
    {"HeadDim80WithBias",
     {.family = "qwen2",
      .vocab = 97,
      .hidden = 96,
      .intermediate = 31,
      .layers = 2,
      .heads = 2,
      .kv_heads = 2,
      .head_dim = 80}},
    {"HeadDim128WithNorms",
     {.family = "qwen3",
      .vocab = 33,
      .hidden = 40,
      .intermediate = 24,
      .layers = 2,
      .heads = 3,
      .kv_heads = 3,
      .head_dim = 128,
      .tied = true}},
    {"Qwen3WithBias",
     {.family = "qwen3",
      .vocab = 50,
      .hidden = 36,
      .intermediate = 17,
      .layers = 1,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 6,
      .attention_bias = true}},
    {"EveryLayerSlides",
     {.family = "mistral",
      .vocab = 65,
      .hidden = 50,
      .intermediate = 33,
      .layers = 2,
      .heads = 5,
      .kv_heads = 5,
      .head_dim = 10,
      .windows = {20, 20},
      .activation = "relu"}},
    {"LOAD_15_LastLayersSlide",
     {.family = "qwen2",
      .vocab = 77,
      .hidden = 48,
      .intermediate = 52,
      .layers = 3,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 16,
      .windows = {0, 32, 32}}},
    {"LOAD_15_LayersAlternate",
     {.family = "qwen3",
      .vocab = 77,
      .hidden = 48,
      .intermediate = 52,
      .layers = 4,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 24,
      .windows = {17, 0, 17, 0}}},
    {"NineHeadsOnThree",
     {.vocab = 17,
      .hidden = 63,
      .intermediate = 200,
      .layers = 2,
      .heads = 9,
      .kv_heads = 3,
      .head_dim = 64,
      .activation = "gelu",
      .tied = true,
      .theta = 500000.0}},
    {"Smallest", {.vocab = 3, .hidden = 1, .intermediate = 1, .layers = 1, .heads = 1, .kv_heads = 1, .head_dim = 2}},
    {"ManyQueriesPerKey",
     {.vocab = 513,
      .hidden = 130,
      .intermediate = 7,
      .layers = 1,
      .heads = 13,
      .kv_heads = 1,
      .head_dim = 30,
      .linear_factor = 4.0}},
    {"HeadDim256",
     {.vocab = 40, .hidden = 32, .intermediate = 48, .layers = 1, .heads = 2, .kv_heads = 1, .head_dim = 256}},
};

class OddShape : public ::testing::TestWithParam<Case> {
 protected:
  const DecoderShape& shape() const { return GetParam().shape; }
  const test::TemporaryFolder folder_;
};

TEST_P(OddShape, AgreesWithTheReferenceInAnyChunks) {
  const TensorMap tensors = random_tensors(shape(), 1);
  write_folder(folder_.path(), config_of(shape()), tensors, all_float32);
  ParityModel model(folder_.path(), in_float32());
  const std::vector<int32_t> prompt = prompt_for(shape().vocab, 110);
  const auto whole = model.run(prompt, kSteps);
  expect_reference(whole, shape(), tensors, prompt);
  for (const int64_t chunk : {1, 13, 64}) expect_equal(model.run(prompt, kSteps, chunk), whole);
}

class OddGgufShape : public OddShape {};

TEST_P(OddGgufShape, FilesOfFloatsGiveTheSameBits) {
  const std::vector<int32_t> prompt = prompt_for(shape().vocab, 40);
  for (const GgmlType type : {GgmlType::kF32, GgmlType::kF16, GgmlType::kBF16}) {
    TensorMap tensors = random_tensors(shape(), 2);
    write_folder(folder_.path() / "folder", config_of(shape()), tensors, all_float32);
    write_gguf(folder_.path() / "model.gguf", shape(), tensors, type);
    ParityModel folder(folder_.path() / "folder", in_float32());
    ParityModel file(folder_.path() / "model.gguf", in_float32());
    expect_equal(file.run(prompt, kSteps), folder.run(prompt, kSteps));
  }
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

/// GGUF files can say neither which layers slide nor which activation it is.
std::vector<Case> gguf_cases() {
  std::vector<Case> cases;
  for (const Case& each : kCases) {
    if (each.shape.windows.empty() && each.shape.activation == "silu") cases.push_back(each);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Models, OddShape, ::testing::ValuesIn(kCases), name_of);
INSTANTIATE_TEST_SUITE_P(Models, OddGgufShape, ::testing::ValuesIn(gguf_cases()), name_of);

class QuantizedGguf : public ::testing::TestWithParam<GgmlType> {};

TEST_P(QuantizedGguf, IsItsDequantizedCopy) {
  const test::TemporaryFolder folder;
  for (const char* family : {"llama", "qwen2", "qwen3"}) {
    const DecoderShape shape{.family = family,
                             .vocab = 100,
                             .hidden = 256,
                             .intermediate = 512,
                             .layers = 1,
                             .heads = 4,
                             .kv_heads = 2,
                             .head_dim = 64};
    TensorMap tensors = random_tensors(shape, 3);
    write_gguf(folder.path() / "model.gguf", shape, tensors, GetParam());
    write_folder(folder.path() / "folder", config_of(shape), tensors, all_float32);
    ParityModel file(folder.path() / "model.gguf", in_float32());
    ParityModel copy(folder.path() / "folder", in_float32());
    const std::vector<int32_t> prompt = prompt_for(shape.vocab, 40);
    const auto answer = copy.run(prompt, kSteps);
    expect_equal(file.run(prompt, kSteps), answer);
    expect_reference(answer, shape, tensors, prompt);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedGguf,
                         ::testing::Values(GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kQ8_0, GgmlType::kQ6_K),
                         [](const auto& info) {
                           return std::string(find_ggml_type(static_cast<uint32_t>(info.param))->name);
                         });

DecoderShape small_tied() {
  DecoderShape shape{
      .vocab = 90, .hidden = 32, .intermediate = 40, .layers = 2, .heads = 4, .kv_heads = 2, .head_dim = 8};
  shape.tied = true;
  return shape;
}

TEST(ModelLoading, LOAD_06_TiedHeadBesideAStoredOne) {
  const test::TemporaryFolder folder;
  const DecoderShape shape = small_tied();
  TensorMap tensors = random_tensors(shape, 4);
  DecoderShape untied = shape;
  untied.tied = false;
  // As in transformers, the tie decides, whatever copy the file has.
  tensors["lm_head.weight"] = random_tensors(untied, 5).at("lm_head.weight");
  write_folder(folder.path(), config_of(shape), tensors, all_float32);
  const std::vector<int32_t> prompt = prompt_for(shape.vocab, 30);
  ParityModel model(folder.path(), in_float32());
  expect_reference(model.run(prompt, kSteps), shape, tensors, prompt);
}

TEST(ModelLoading, LOAD_07_TiedHeadThatTheFileLacks) {
  const test::TemporaryFolder folder;
  const DecoderShape shape = small_tied();
  const TensorMap tensors = random_tensors(shape, 6);
  ASSERT_FALSE(tensors.contains("lm_head.weight"));
  write_folder(folder.path(), config_of(shape), tensors, all_float32);
  const std::vector<int32_t> prompt = prompt_for(shape.vocab, 30);
  ParityModel model(folder.path(), in_float32());
  expect_reference(model.run(prompt, kSteps), shape, tensors, prompt);
  DecoderShape untied = shape;
  untied.tied = false;
  write_folder(folder.path(), config_of(untied), tensors, all_float32);
  EXPECT_THROW(ParityModel(folder.path(), in_float32()), std::runtime_error) << "an untied head must not stay empty";
}

TEST(ModelLoading, LOAD_18_TheSameWeightsInEveryFloatType) {
  const std::string golden = golden_models() + "/llama";
  const TensorMap tensors = read_tensors(golden);
  const nlohmann::json config = nlohmann::json::parse(std::ifstream(golden + "/config.json"));
  const std::vector<int32_t> prompt = prompt_for(config["vocab_size"].get<int64_t>(), 60);
  ParityModel original(golden, in_float32());
  const auto expected = original.run(prompt, 1);
  const DType types[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  for (int kind = 0; kind < 4; ++kind) {
    const test::TemporaryFolder folder;
    nlohmann::json own = config;
    own.erase("dtype");
    int next = 0;
    write_folder(folder.path(), own, tensors, [&](const std::string&) { return types[kind < 3 ? kind : next++ % 3]; });
    ParityModel model(folder.path(), [] {
      EngineConfig as_stored;
      as_stored.threads = 2;
      return as_stored;
    }());
    const auto answer = model.run(prompt, 1);
    double worst = 0;
    for (size_t i = 0; i < answer.last.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(answer.last[i] - expected.last[i])));
    }
    EXPECT_LT(worst, kind == 0 ? 1e-6 : 0.1) << "kind " << kind;
    std::vector<float> ranked = expected.last;
    std::ranges::sort(ranked, std::greater());
    if (ranked[0] - ranked[1] > 2 * worst) {
      EXPECT_EQ(answer.greedy[0], expected.greedy[0]) << "kind " << kind;
    }
  }
}

}  // namespace
}  // namespace quire::testing
