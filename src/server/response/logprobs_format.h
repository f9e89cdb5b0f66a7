// Log-probabilities in the three shapes that clients expect.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "api/async_llm.h"

namespace quire {

using TokenName = std::function<std::string(int32_t)>;

/// Never below -9999.0, finite and never NaN, so that it is valid JSON.
double wire_logprob(float logprob);

/// Completions: {text_offset, token_logprobs, tokens, top_logprobs}.
class CompletionLogprobs {
 public:
  /// `offset` is the number of characters of the choice's text before what is added; it is moved on.
  CompletionLogprobs(const TokenName& name, int64_t& offset);

  /// The tokens of an echoed prompt; `logprobs` are those from the second token on.
  void add_prompt(std::span<const int32_t> tokens, std::span<const SampledToken> logprobs,
                  std::span<const std::string> texts);
  void add_output(const TextOutput& output);
  nlohmann::ordered_json json() &&;

 private:
  void add(int32_t token, std::span<const TokenLogprob> logprobs, const std::string* text);

  const TokenName& name_;
  int64_t& offset_;
  nlohmann::ordered_json offsets_, logprobs_, names_, tops_;
};

/// Chat: {content: [{token, logprob, bytes, top_logprobs: [...]}]}.
nlohmann::ordered_json chat_logprobs(const TextOutput& output, const TokenName& name);

/// [null, {"id": {logprob, rank, decoded_token}, ...}, ...], one entry per prompt token.
nlohmann::ordered_json prompt_logprobs_json(std::span<const SampledToken> entries, const TokenName& name);

/// The number of characters (code points) of UTF-8 text.
int64_t count_characters(std::string_view text);

}  // namespace quire
