#include "engine/reference_checks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace quire::testing {

EngineConfig two_threads_in_float32() {
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

}  // namespace quire::testing
