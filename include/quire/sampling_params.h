// How one request's tokens are chosen, as vLLM names it. Public: it stands alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quire {

/// Values as vLLM's SamplingParams has them; judged once, when a request is submitted.
struct SamplingParams {
  double temperature = 1.0;     ///< [0, 2]; below 1e-5 greedy; between 0 and 0.01 raised to 0.01
  double top_p = 1.0;           ///< (0, 1]
  int64_t top_k = 0;            ///< 0 or -1: all; else >= 1
  std::optional<int64_t> seed;  ///< none or -1: one is drawn at admission
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  std::optional<int64_t> max_tokens = 16;  ///< none: what the context leaves; always clamped to that
  std::optional<int64_t> logprobs;  ///< how many alternatives beside the sampled token's; -1: the whole vocabulary
  std::optional<int64_t> prompt_logprobs;  ///< the same for each token of the prompt
  bool skip_special_tokens = true;

  bool greedy() const { return temperature < 1e-5; }
};

}  // namespace quire
