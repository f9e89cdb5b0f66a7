// How one request's tokens are chosen, as vLLM names it. Public: it stands alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace quire {

/// Ends an output that runs in circles: it stops once its last tokens are one pattern of min_pattern_size to
/// max_pattern_size tokens, min_count times in a row.
struct RepetitionDetection {
  int64_t max_pattern_size = 0;  ///< >= min_pattern_size
  int64_t min_pattern_size = 1;  ///< >= 1
  int64_t min_count = 2;         ///< >= 2
};

/// Values as vLLM's SamplingParams has them; judged once, when a request is submitted.
///
/// Logits pass through, in this order: allowed_token_ids, bad_words, min_tokens, logit_bias, penalties, temperature,
/// min_p, top_k, top_p.
struct SamplingParams {
  int64_t n = 1;                   ///< choices to generate; above 1 not with greedy sampling
  double temperature = 1.0;        ///< [0, 2]; below 1e-5 greedy; between 0 and 0.01 raised to 0.01
  double top_p = 1.0;              ///< (0, 1]
  int64_t top_k = 0;               ///< 0 or -1: all; else >= 1
  double min_p = 0.0;              ///< [0, 1]: drops tokens less likely than this share of the most likely one's
  double presence_penalty = 0.0;   ///< [-2, 2]: taken off the logit of tokens that the output has
  double frequency_penalty = 0.0;  ///< [-2, 2]: the same for each time that the output has them
  /// Above 0: divides positive logits of tokens that prompt or output have, multiplies negative ones.
  double repetition_penalty = 1.0;
  std::map<int32_t, double> logit_bias;  ///< added to logits; [-100, 100]
  /// No other token is chosen; none: all are allowed. Where nothing of them is possible (bad_words, min_tokens), the
  /// most likely of them.
  std::optional<std::vector<int32_t>> allowed_token_ids;
  std::vector<std::string> bad_words;  ///< never generated, with or without a space before them
  std::optional<int64_t> seed;         ///< none or -1: one is drawn at admission
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  std::optional<int64_t> max_tokens = 16;  ///< none: what the context leaves; always clamped to that
  int64_t min_tokens = 0;           ///< neither EOS nor a stop token or string ends the output before it has so many
  std::optional<int64_t> logprobs;  ///< how many alternatives beside the sampled token's; -1: the whole vocabulary
  /// With logprobs: these tokens' instead of those of the most likely ones.
  std::vector<int32_t> logprob_token_ids;
  std::optional<int64_t> prompt_logprobs;     ///< the same for each token of the prompt
  bool skip_special_tokens = true;            ///< special tokens have no text
  bool spaces_between_special_tokens = true;  ///< false: no spaces between neighbouring special tokens that are shown
  /// Cuts a longer prompt to so many tokens; -1: to what the context holds. Which end is cut is truncation_side's.
  std::optional<int64_t> truncate_prompt_tokens;
  enum class TruncationSide : uint8_t { kLeft, kRight };
  TruncationSide truncation_side = TruncationSide::kLeft;  ///< kLeft keeps the prompt's last tokens
  std::optional<RepetitionDetection> repetition_detection;
  /// Searches for the n outputs that are most likely as wholes, instead of sampling. What changes logits or ends an
  /// output early (but EOS and max_tokens) is then refused; seed, temperature, min_p, top_k and top_p mean nothing.
  bool use_beam_search = false;
  double length_penalty = 1.0;  ///< with use_beam_search: log-probabilities are divided by length to this power

  bool greedy() const { return temperature < 1e-5; }
};

}  // namespace quire
