// Checkpoints of shapes that no kernel was written for, against a decoder in float64; and the same weights in GGUF
// files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/test_files.h"
#include "engine/parity.h"
#include "engine/reference_checks.h"
#include "engine/tiny_checkpoint.h"

namespace quire::testing {
namespace {

constexpr int64_t kSteps = 6;

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
  ParityModel model(folder_.path(), two_threads_in_float32());
  const std::vector<int32_t> prompt = prompt_for(shape().vocab, 110);
  const auto whole = model.run(prompt, kSteps);
  expect_reference(whole, shape(), tensors, prompt);
  for (const int64_t chunk : {1, 13, 64}) expect_same_answer(model.run(prompt, kSteps, chunk), whole);
}

class OddGgufShape : public OddShape {};

TEST_P(OddGgufShape, FilesOfFloatsGiveTheSameBits) {
  const std::vector<int32_t> prompt = prompt_for(shape().vocab, 40);
  for (const GgmlType type : {GgmlType::kF32, GgmlType::kF16, GgmlType::kBF16}) {
    TensorMap tensors = random_tensors(shape(), 2);
    write_folder(folder_.path() / "folder", config_of(shape()), tensors, all_float32);
    write_gguf(folder_.path() / "model.gguf", shape(), tensors, type);
    ParityModel folder(folder_.path() / "folder", two_threads_in_float32());
    ParityModel file(folder_.path() / "model.gguf", two_threads_in_float32());
    expect_same_answer(file.run(prompt, kSteps), folder.run(prompt, kSteps));
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
    ParityModel file(folder.path() / "model.gguf", two_threads_in_float32());
    ParityModel copy(folder.path() / "folder", two_threads_in_float32());
    const std::vector<int32_t> prompt = prompt_for(shape.vocab, 40);
    const auto answer = copy.run(prompt, kSteps);
    expect_same_answer(file.run(prompt, kSteps), answer);
    expect_reference(answer, shape, tensors, prompt);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedGguf,
                         ::testing::Values(GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kQ8_0, GgmlType::kQ6_K),
                         [](const auto& info) {
                           return std::string(find_ggml_type(static_cast<uint32_t>(info.param))->name);
                         });

}  // namespace
}  // namespace quire::testing
