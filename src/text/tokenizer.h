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

/// A loaded tokenizer.json. Thread-safe.
class Tokenizer {
 public:
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// From the text of a tokenizer.json.
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view json);

  /// `add_special_tokens` applies the post-processor (BOS and the like).
  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special_tokens, SpecialText special_text = SpecialText::kParse) const;
  /// Ids beyond the vocabulary are an error.
  Result<std::string> decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

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
