// Whole models with compressed weights: the same bits each time, in any chunks, beside any neighbours, with adapters
// and on several ranks; and near to what float weights give.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/test_files.h"
#include "engine/parity.h"
#include "engine/tiny_checkpoint.h"
#include "tensor/convert.h"

namespace quire::testing {
namespace {

EngineConfig compressed(const std::string& method, int ranks = 1, bool head = false) {
  EngineConfig config;
  config.dtype = DType::kFloat32;
  config.quantization = method;
  config.quantize_lm_head = head;
  config.tensor_parallel_size = ranks;
  config.threads = 2;
  config.num_kv_blocks_override = 256;
  return config;
}

const std::string kFolder = golden_models() + "/llama";

struct Case {
  const char* method;
  int ranks;
  bool head;
};

class QuantizedModel : public ::testing::TestWithParam<Case> {
 protected:
  EngineConfig config() const { return compressed(GetParam().method, GetParam().ranks, GetParam().head); }
};

TEST_P(QuantizedModel, IsTheSameBitsEachTimeInAnyChunksBesideOthersAndWithAdapters) {
  EngineConfig with_lora = config();
  with_lora.lora.enabled = true;
  ParityModel model(kFolder, with_lora);
  const uint64_t adapter = model.load_adapter(kFolder + "/all-r8");
  std::vector<ParityModel::Work> works;
  for (int32_t i = 0; i < 6; ++i) {
    works.push_back({prompt_of(5 + (i * 31) % 90, 31 + i), 4, 1 << 20, i < 3 ? 0 : adapter});
  }
  ParityModel again(kFolder, with_lora);
  expect_same_bits_in_any_company(model, again, std::move(works));
}

/// Mean absolute difference of the log-probabilities of all tokens after a prompt.
double difference(const ParityModel::Answer& a, const ParityModel::Answer& b) {
  double sum = 0;
  for (size_t i = 0; i < a.last.size(); ++i) sum += std::abs(a.last[i] - b.last[i]);
  return sum / static_cast<double>(a.last.size());
}

TEST_P(QuantizedModel, StaysNearFloatWeightsAloneAndWithAnAdapter) {
  EngineConfig plain = compressed("none");
  plain.lora.enabled = true;
  EngineConfig with_lora = config();
  with_lora.lora.enabled = true;
  ParityModel exact(kFolder, plain);
  ParityModel model(kFolder, with_lora);
  const uint64_t exact_adapter = exact.load_adapter(kFolder + "/all-r8");
  const uint64_t adapter = model.load_adapter(kFolder + "/all-r8");
  const double bound = std::string(GetParam().method) == "int8" ? 0.06 : 0.6;
  for (const int32_t step : {31, 37, 41}) {
    const std::vector<int32_t> prompt = prompt_of(60, step);
    const ParityModel::Answer base = exact.run(prompt, 1);
    const ParityModel::Answer adapted = exact.run(prompt, 1, 1 << 20, exact_adapter);
    const double base_off = difference(model.run(prompt, 1), base);
    const double adapted_off = difference(model.run(prompt, 1, 1 << 20, adapter), adapted);
    EXPECT_LT(base_off, bound);
    EXPECT_LT(adapted_off, bound);
    EXPECT_GT(base_off, 0);
    EXPECT_GT(difference(adapted, base), adapted_off) << "rounding must move less than the adapter does";
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, QuantizedModel,
                         ::testing::Values(Case{"int8", 1, false}, Case{"int8", 2, true}, Case{"int4", 1, true},
                                           Case{"int4", 2, false}),
                         [](const auto& info) {
                           return std::string(info.param.method) + "_ranks" + std::to_string(info.param.ranks) +
                                  (info.param.head ? "_head" : "");
                         });

/// Q4_1: of 32 values a step and the least, both float16, and 16 bytes, each with a value's steps and those of the
/// value 16 further on.
std::string q4_1_blocks(const std::vector<float>& values) {
  std::string bytes;
  for (size_t begin = 0; begin < values.size(); begin += 32) {
    const auto [least, most] = std::minmax_element(values.begin() + static_cast<ptrdiff_t>(begin),
                                                   values.begin() + static_cast<ptrdiff_t>(begin) + 32);
    const float step = (*most - *least) / 15;
    bytes += test::raw(float_to_float16(step)) + test::raw(float_to_float16(*least));
    const auto steps = [&](size_t i) {
      return static_cast<unsigned>(std::clamp(std::lround((values[begin + i] - *least) / step), 0L, 15L));
    };
    for (size_t i = 0; i < 16; ++i) bytes += static_cast<char>(steps(i) | steps(i + 16) << 4);
  }
  return bytes;
}

/// The best token after each token of `sequences` but the last and the first, 200 in all.
std::vector<int32_t> best_tokens(ParityModel& model, const nlohmann::json& sequences, uint64_t adapter) {
  std::vector<int32_t> best;
  for (const auto& sequence : sequences) {
    const auto tokens = sequence.get<std::vector<int32_t>>();
    for (size_t length = 2; length < tokens.size() && best.size() < 200; ++length) {
      const std::vector<int32_t> prompt(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(length));
      best.push_back(model.run(prompt, 1, 1 << 20, adapter).greedy.front());
    }
  }
  return best;
}

int64_t count_equal(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += a[i] == b[i] ? 1 : 0;
  return count;
}

/// A trained adapter, on sequences that it has not seen: multiplied as stored the base gives the best tokens that its
/// dequantized weights give in float32, at 99% of 200 places.
TEST(AdapterOverA4BitBase, LORA_33_GivesTheBestTokensOfTheDequantizedWeights) {
  const test::TemporaryFolder folder;
  const DecoderShape shape{
      .vocab = 512, .hidden = 64, .intermediate = 160, .layers = 2, .heads = 4, .kv_heads = 2, .head_dim = 16};
  TensorMap tensors = read_tensors(kFolder);
  const std::string path = folder.path() / "model.gguf";
  write_gguf(path, shape, tensors, GgmlType::kQ4_1, q4_1_blocks);
  const std::string adapter = kFolder + "/trained-strides";
  const nlohmann::json sequences = read_golden(adapter)["strides"];
  ParityModel exact(path, compressed("none"));
  const uint64_t exact_id = exact.load_adapter(adapter);
  const std::vector<int32_t> expected = best_tokens(exact, sequences, exact_id);
  ASSERT_EQ(expected.size(), 200u);
  EXPECT_LT(count_equal(expected, best_tokens(exact, sequences, 0)), 20) << "the adapter does something";
  for (const int ranks : {1, 2}) {
    ParityModel stored(path, compressed("gguf", ranks));
    EXPECT_GE(count_equal(best_tokens(stored, sequences, stored.load_adapter(adapter)), expected), 198) << ranks;
  }
  for (const char* method : {"int8", "int4"}) {  // which round the weights once more
    ParityModel rounded(path, compressed(method));
    EXPECT_GE(count_equal(best_tokens(rounded, sequences, rounded.load_adapter(adapter)), expected), 198) << method;
  }
}

TEST(QuantizationSettings, WhatDoesNotGoTogetherIsRefused) {
  const auto refusal = [](const EngineConfig& config, const std::string& model) {
    EngineConfig whole = config;
    whole.model = model;
    auto checkpoint = open_checkpoint(model);
    EXPECT_TRUE(checkpoint.ok());
    auto loaded = create_executor(whole, std::move(checkpoint).value(), {});
    return loaded.ok() ? std::string() : loaded.error().message;
  };
  EXPECT_NE(refusal(compressed("awq"), kFolder).find("int8"), std::string::npos);
  EXPECT_NE(refusal(compressed("gguf"), kFolder).find("nothing to multiply as stored"), std::string::npos);
  EXPECT_NE(refusal(compressed("none", 1, true), kFolder).find("--quantize-lm-head"), std::string::npos);
}

}  // namespace
}  // namespace quire::testing
