// The vocabulary in a GGUF file's metadata (keys tokenizer.ggml.*; github.com/ggml-org/ggml, docs/gguf.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

class GgufFile;

/// tokenizer.ggml.token_type.
enum class GgufTokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

/// The metadata as it is, with every id and length checked against the vocabulary.
struct GgufVocabulary {
  std::string model;          ///< "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre_tokenizer;  ///< tokenizer.ggml.pre; empty where the file has none
  std::string architecture;
  std::vector<std::string> tokens;   ///< by id
  std::vector<GgufTokenType> types;  ///< one for each token; all normal where the file has none
  std::vector<double> scores;        ///< one for each token, or none
  std::vector<std::string> merges;   ///< "left right", best first; empty where the file has none
  std::optional<int32_t> bos_id, eos_id, unk_id, pad_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  std::string chat_template;  ///< empty where the file has none
};

Result<GgufVocabulary> read_gguf_vocabulary(const GgufFile& file);

}  // namespace quire
