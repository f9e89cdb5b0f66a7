// The tokens that tokenizer_config.json and special_tokens_map.json name beside those of tokenizer.json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

/// A token as the library's added_tokens describe one.
struct ConfigToken {
  std::string text;
  /// single_word, lstrip, rstrip, normalized and special; null where the config gives the text alone.
  nlohmann::json description;
  enum class Source : uint8_t {
    kDecoder,  ///< added_tokens_decoder: what it says goes before what tokenizer.json says
    kNamed,    ///< bos_token and the like: special, whatever tokenizer.json says
    kListed,   ///< additional_special_tokens: added where tokenizer.json does not have it
  };
  Source source;
};

/// What the two files say of tokens, read as transformers reads them.
struct ConfigTokens {
  std::string bos_token, eos_token, pad_token, unk_token;  ///< empty where there is none
  std::vector<ConfigToken> tokens;                         ///< in the order in which new ones get their ids
};

/// `where` is the folder. A field of the wrong type is refused by name, since prompts would come out differently, and
/// so is split_special_tokens, which is not built.
Result<ConfigTokens> read_config_tokens(const nlohmann::ordered_json& tokenizer_config,
                                        const nlohmann::ordered_json& special_tokens_map, const std::string& where);

/// tokenizer.json with those of `tokens` added that it does not have as added tokens; the text itself where it has all.
Result<std::string> with_config_tokens(std::string tokenizer_json, const std::vector<ConfigToken>& tokens);

}  // namespace quire
