// bad_words as the tokens that spell them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "sampling/bad_words.h"
#include "text/tokenizer.h"

namespace quire {

/// Each word as it begins a text and as it follows a space, as vLLM bans them; and not only as the tokenizer would
/// spell it, but in every way in which tokens do. Tokens of `vocab_size` and above cannot be generated and are left
/// out. nullptr for no words.
Result<BadWords> spell_bad_words(const std::vector<std::string>& words, const Tokenizer& tokenizer, int64_t vocab_size);

}  // namespace quire
