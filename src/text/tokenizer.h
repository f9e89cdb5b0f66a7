// Text to token ids and back, exactly as Hugging Face's tokenizers do it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

/// What a special token's text (such as "<|im_end|>") means inside the text that is encoded.
enum class SpecialText : uint8_t {
  kParse,    ///< it becomes the special token (templates' own output, completions)
  kLiteral,  ///< it stays text, encoded like any other characters
};

/// Characters that stand in marked text for one character of a special token's text, so that it is not parsed as that
/// token.
struct SpecialTextMarks {
  uint32_t first = 0;  ///< first code point of the range; 0 where nothing is marked
};

/// A loaded tokenizer.json. Thread-safe.
class Tokenizer {
 public:
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// From the text of a tokenizer.json.
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view json);

  /// `add_special_tokens` applies the post-processor (BOS and the like).
  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special_tokens,
                                      SpecialText special_text = SpecialText::kParse) const;
  /// Ids beyond the vocabulary are an error.
  Result<std::string> decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  /// Marks let one text hold both kinds of special text: the part to be taken literally is marked, joined with the
  /// rest, and all of it goes to encode_marked(). These are marks that do not occur in `text`, which is everything that
  /// will be encoded.
  Result<SpecialTextMarks> marks_absent_from(std::string_view text) const;
  /// `text` with the text of special tokens in it marked, and a marked text as it was.
  Result<std::string> mark_special_text(std::string_view text, SpecialTextMarks marks) const;
  Result<std::string> unmark_special_text(std::string_view text, SpecialTextMarks marks) const;
  /// encode() for a text with marked parts: unmarked special text is parsed, marked text is literal.
  Result<std::vector<int32_t>> encode_marked(std::string_view text, bool add_special_tokens,
                                             SpecialTextMarks marks) const;

  /// The vocabulary's string for an id ("Ġthe", "<0x0A>"), or nothing.
  std::optional<std::string> id_to_token(int32_t id) const;
  std::optional<int32_t> token_to_id(std::string_view token) const;
  /// True for ids that skip_special_tokens drops.
  bool is_special(int32_t id) const;
  /// One more than the highest id, added tokens included.
  int64_t vocab_size() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
