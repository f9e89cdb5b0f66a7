// A Hugging Face folder with a golden.json, run through the real executor without scheduler or server.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/single_process_executor.h"

namespace quire::testing {

/// tests/golden/models.
std::string golden_models();

/// A loaded model whose steps the test plans by itself: sequence after sequence, blocks in order.
class ParityModel {
 public:
  explicit ParityModel(const std::string& path, EngineConfig config = {});

  struct Answer {
    std::vector<std::vector<TokenLogprob>> prompt;  ///< per prompt token from the second on: chosen first
    std::vector<float> last;                        ///< log-probability of every token after the prompt
    std::vector<int32_t> greedy;
    std::vector<std::vector<TokenLogprob>> greedy_logprobs;
  };

  /// The prompt in chunks of `chunk` tokens, then `steps` greedy tokens.
  Answer run(const std::vector<int32_t>& prompt, int64_t steps, int64_t chunk = 1 << 20);

  int64_t vocab_size() const { return loaded_.limits.vocab_size; }

 private:
  EngineConfig config_;
  LoadedExecutor loaded_;
};

/// A copy of a Hugging Face folder (removed at exit) whose weights are all rounded to bfloat16.
std::string rounded_copy(const std::string& folder);

/// Checks every prompt of `folder`/golden.json: log-probabilities to `tolerance`, greedy tokens where the margin is
/// above `margin`.
void expect_parity(const std::string& folder, EngineConfig config = {}, double tolerance = 1e-4, double margin = 1e-3);

}  // namespace quire::testing
