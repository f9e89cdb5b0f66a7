// The cases "Model loading" of public bug reports that show in a loaded model's scores, against a decoder in float64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/test_files.h"
#include "engine/parity.h"
#include "engine/reference_checks.h"
#include "engine/tiny_checkpoint.h"

namespace quire::testing {
namespace {

using nlohmann::json;

constexpr int64_t kSteps = 6;
/// Far enough that the angles of a wrong theta or scaling are elsewhere.
constexpr int64_t kFarOut = 520;

/// One small checkpoint whose config.json is written again and again.
class TinyModel {
 public:
  TinyModel(const DecoderShape& shape, uint32_t seed) : shape_(shape), tensors_(random_tensors(shape, seed)) {}

  ParityModel::Answer run(const json& config, int64_t length, int64_t steps = kSteps) const {
    const test::TemporaryFolder folder;
    write_folder(folder.path(), config, tensors_, all_float32);
    ParityModel model(folder.path(), two_threads_in_float32());
    return model.run(prompt_for(shape_.vocab, length), steps);
  }

  /// The answer, checked against the reference.
  ParityModel::Answer check(const json& config, int64_t length, int64_t steps = kSteps) const {
    const ParityModel::Answer answer = run(config, length, steps);
    expect_reference(answer, shape_, tensors_, prompt_for(shape_.vocab, length));
    return answer;
  }

 private:
  const DecoderShape shape_;
  const TensorMap tensors_;
};

DecoderShape small(const std::string& family = "llama") {
  return {.family = family,
          .vocab = 90,
          .hidden = 32,
          .intermediate = 40,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 8};
}

DecoderShape tied(DecoderShape shape) {
  shape.tied = true;
  return shape;
}

TEST(ModelLoading, LOAD_09_ThetaInsideRopeParametersHoldsFarOut) {
  DecoderShape shape = small();
  shape.theta = 500000.0;
  const TinyModel model(shape, 1);
  json old_style = config_of(shape);
  ASSERT_TRUE(old_style.contains("rope_theta"));
  json new_style = old_style;
  new_style.erase("rope_theta");
  new_style["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  const auto answer = model.check(new_style, kFarOut);
  expect_same_answer(model.run(old_style, kFarOut), answer);
  new_style.erase("rope_parameters");
  EXPECT_NE(model.run(new_style, kFarOut).last, answer.last) << "this prompt would not notice a lost theta";
}

TEST(ModelLoading, LOAD_12_Llama3ScalingHoldsFarOut) {
  DecoderShape shape = small();
  shape.head_dim = 16;
  shape.theta = 5000.0;
  shape.llama3 = {.factor = 8.0, .low_freq_factor = 1.0, .high_freq_factor = 4.0, .original_length = 64};
  const TinyModel model(shape, 2);
  const json scaling = {
      {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 64}};
  json old_style = config_of(shape);
  old_style["rope_scaling"] = scaling;
  old_style["rope_scaling"]["rope_type"] = "llama3";
  json new_style = config_of(shape);
  new_style.erase("rope_theta");
  new_style["rope_parameters"] = scaling;
  new_style["rope_parameters"].update({{"rope_type", "llama3"}, {"rope_theta", 5000.0}});
  expect_same_answer(model.check(new_style, kFarOut), model.run(old_style, kFarOut));
}

TEST(ModelLoading, LOAD_14_HeadDimThatIsNotHiddenOverHeads) {
  DecoderShape shape = small();
  shape.hidden = 64;
  shape.head_dim = 32;
  TinyModel(shape, 3).check(config_of(shape), 60);
}

TEST(ModelLoading, LOAD_14_HeadDimThatIsNullOrAbsent) {
  for (const char* family : {"llama", "mistral", "qwen2"}) {
    const DecoderShape shape = small(family);
    const TinyModel model(shape, 3);
    json config = config_of(shape);
    const auto answer = model.check(config, 60);
    config["head_dim"] = nullptr;
    expect_same_answer(model.run(config, 60), answer);
    config.erase("head_dim");
    expect_same_answer(model.run(config, 60), answer);
  }
}

TEST(ModelLoading, LOAD_15_DecodingFarBeyondTheWindow) {
  for (const std::vector<int64_t>& windows : {std::vector<int64_t>{32, 32}, {32, 0}, {0, 32}}) {
    DecoderShape shape = small(windows[0] == windows[1] ? "mistral" : "qwen2");
    shape.windows = windows;
    TinyModel(shape, 4).check(config_of(shape), 100, 64);
  }
}

TEST(ModelLoading, LOAD_20_AConfigWithoutAnyRopeField) {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    const DecoderShape shape = small(family);
    json config = config_of(shape);
    config.erase("rope_theta");
    TinyModel(shape, 5).check(config, 200);
  }
}

TEST(ModelLoading, LOAD_06_TiedHeadBesideAStoredOne) {
  const test::TemporaryFolder folder;
  const DecoderShape shape = tied(small());
  TensorMap tensors = random_tensors(shape, 4);
  DecoderShape untied = shape;
  untied.tied = false;
  // The tie decides, as for vLLM, whatever head the file has.
  tensors["lm_head.weight"] = random_tensors(untied, 5).at("lm_head.weight");
  write_folder(folder.path(), config_of(shape), tensors, all_float32);
  const std::vector<int32_t> prompt = prompt_for(shape.vocab, 30);
  ParityModel model(folder.path(), two_threads_in_float32());
  expect_reference(model.run(prompt, kSteps), shape, tensors, prompt);
}

TEST(ModelLoading, LOAD_07_TiedHeadThatTheFileLacks) {
  const test::TemporaryFolder folder;
  const DecoderShape shape = tied(small());
  const TensorMap tensors = random_tensors(shape, 6);
  ASSERT_FALSE(tensors.contains("lm_head.weight"));
  write_folder(folder.path(), config_of(shape), tensors, all_float32);
  const std::vector<int32_t> prompt = prompt_for(shape.vocab, 30);
  ParityModel model(folder.path(), two_threads_in_float32());
  expect_reference(model.run(prompt, kSteps), shape, tensors, prompt);
  DecoderShape untied = shape;
  untied.tied = false;
  write_folder(folder.path(), config_of(untied), tensors, all_float32);
  EXPECT_THROW(ParityModel(folder.path(), two_threads_in_float32()), std::runtime_error)
      << "an untied head must not stay empty";
}

TEST(ModelLoading, LOAD_18_TheSameWeightsInEveryFloatType) {
  const std::string golden = golden_models() + "/llama";
  const TensorMap tensors = read_tensors(golden);
  const json config = json::parse(std::ifstream(golden + "/config.json"));
  const std::vector<int32_t> prompt = prompt_for(config["vocab_size"].get<int64_t>(), 60);
  ParityModel original(golden, two_threads_in_float32());
  const auto expected = original.run(prompt, 1);
  const DType types[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  for (int kind = 0; kind < 4; ++kind) {
    const test::TemporaryFolder folder;
    json own = config;
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
