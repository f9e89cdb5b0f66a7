// A tokenizer.json made from a GGUF file's vocabulary.
#pragma once

#include <string>

#include "base/result.h"
#include "text/gguf_vocabulary.h"

namespace quire {

/// The tokenizer.json that gives Hugging Face's ids for this vocabulary. Kinds of tokenizers and pre-tokenizers that
/// are not known are refused by name; `where` (the file) begins the message.
Result<std::string> make_tokenizer_json(const GgufVocabulary& vocabulary, const std::string& where);

}  // namespace quire
