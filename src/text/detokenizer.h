// Token ids to text as they arrive, never half a character.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace quire {

/// Turns one sequence's output tokens into text deltas. All deltas joined, finish() included, equal decode() of all ids
/// in the context of the prompt. Ids outside the vocabulary have no text. Not thread-safe; cheap per token (it decodes
/// a short window, not the whole output).
///
/// One exception: decoders with byte fallback turn a whole run of byte tokens into U+FFFD once one of them is invalid;
/// what was given out before that stays.
class Detokenizer {
 public:
  /// The tokenizer must outlive it. The prompt's last tokens give the context in which the first output token is
  /// decoded. Without `spaces_between_special_tokens` a special token that is shown right after another one is its own
  /// text alone, whatever the tokenizer's decoder would put between them.
  Detokenizer(const Tokenizer& tokenizer, std::span<const int32_t> prompt, bool skip_special_tokens,
              bool spaces_between_special_tokens = true);

  /// The text that `id` completes: empty while a character is incomplete.
  std::string push(int32_t id);
  /// What is held back at the end of generation (an incomplete character as U+FFFD).
  std::string finish();

 private:
  void take_context(std::span<const int32_t> prompt);
  std::string decode(size_t begin, size_t end) const;
  std::string fresh(const std::string& text, size_t end) const;
  void move_to(size_t end);
  std::string push_settled(const std::string& text);

  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  bool join_special_tokens_;
  bool after_special_ = false;  ///< the last output token was a special one; kept with join_special_tokens_
  std::vector<int32_t> ids_;    ///< a window: context, then what is not given out yet
  size_t read_end_ = 0;         ///< ids before it are already in the text given out
  std::string read_text_;       ///< decode of the ids before read_end_
};

}  // namespace quire
