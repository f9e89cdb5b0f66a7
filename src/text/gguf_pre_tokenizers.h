// The pre-tokenizers that GGUF files name (tokenizer.ggml.pre), as the parts of a tokenizer.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

namespace quire {

/// Fills `tokenizer` ("normalizer", "pre_tokenizer", and "ignore_merges" of "model") for the named kind; an empty name
/// is "default". Returns whether such models put BOS first unless told otherwise, or nothing for an unknown kind.
std::optional<bool> apply_gguf_pre_tokenizer(std::string_view name, nlohmann::json& tokenizer);

}  // namespace quire
