// What a request changes in its rows of logits before a token is chosen.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sampling/bad_words.h"
#include "sampling/sampling_params.h"
#include "sampling/token_history.h"

namespace quire {

/// One choice's edits: what its parameters ask for, and the state that its output gives them. They depend on the
/// choice's own tokens alone.
class LogitEdits {
 public:
  /// nullptr for a request without any. `params` must outlive it; `end_token_ids` are the EOS tokens; `bad_words` may
  /// be nullptr.
  static std::unique_ptr<LogitEdits> create(const SamplingParams& params, std::span<const int32_t> prompt,
                                            std::span<const int32_t> end_token_ids, BadWords bad_words);

  /// The output has one token more.
  void add_output(int32_t token);

  /// Whether the next row is changed at all.
  bool active() const { return lasting_ || outputs_ < params_.min_tokens; }

  /// Changes a row of logits that are numbers or -inf, in vLLM's order: allowed_token_ids, bad_words, min_tokens,
  /// logit_bias, repetition_penalty, frequency_penalty, presence_penalty. Returns the token to take should none be
  /// possible any more: the most likely allowed one. `likeliest` is the token of the largest logit.
  int32_t apply(std::span<float> row, int32_t likeliest) const;

 private:
  LogitEdits(const SamplingParams& params, std::span<const int32_t> prompt, std::span<const int32_t> end_token_ids,
             BadWords bad_words);
  int32_t keep_allowed(std::span<float> row) const;
  void penalize(std::span<float> row) const;

  const SamplingParams& params_;
  std::vector<int32_t> end_token_ids_;  ///< impossible before min_tokens
  std::vector<int32_t> allowed_;        ///< ascending
  std::optional<BadWordProgress> bad_words_;
  bool penalties_;
  bool lasting_;  ///< something of it lasts as long as the output
  TokenHistory history_;
  int64_t outputs_ = 0;
};

/// The token of the largest logit, of equal ones the lowest; NaN counts as -inf. 0 where there is nothing else.
int32_t largest_logit(std::span<const float> row);

}  // namespace quire
