// truncate_prompt_tokens: prompts cut to a number of tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sampling/sampling_params.h"

namespace quire {

/// How many tokens a prompt may keep; nothing where truncate_prompt_tokens is not given. -1 leaves room for one token
/// of output. Refuses more than the context.
Result<std::optional<size_t>> kept_prompt_tokens(const SamplingParams& params, int64_t max_model_len);

/// Cuts ids to `kept`, at the end that `side` names.
void truncate_prompt(std::vector<int32_t>& ids, size_t kept, SamplingParams::TruncationSide side);

/// Text to ids, with or without the tokenizer's special tokens.
using EncodeText = std::function<Result<std::vector<int32_t>>(std::string_view text, bool add_special_tokens)>;

/// Encodes a text and cuts it as `params` say. As with Hugging Face's tokenizers, special tokens that are added around
/// the text (BOS) stay: the text between them is cut.
Result<std::vector<int32_t>> encode_truncated(const EncodeText& encode, std::string_view text, bool add_special_tokens,
                                              const SamplingParams& params, int64_t max_model_len);

}  // namespace quire
