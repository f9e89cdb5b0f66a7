// Answers of /v1/completions: text_completion objects, whole and in chunks alike.
#pragma once

#include <string>
#include <vector>

#include "server/response/response_format.h"

namespace quire {

/// A prompt that the answer gives back.
struct EchoedPrompt {
  std::string text;
  std::vector<std::string> token_texts;  ///< what each token adds to it; where logprobs were asked for
};

class CompletionFormat final : public ResponseFormat {
 public:
  struct Options {
    bool logprobs = false;
    bool prompt_logprobs = false;      ///< as a field of their own
    std::vector<EchoedPrompt> echoed;  ///< one for each prompt, or none
    bool prompt_only = false;          ///< with echo: the output is left out
  };

  CompletionFormat(ResponseInfo info, Options options);

  nlohmann::ordered_json whole(std::span<const TextOutput> choices) override;
  std::vector<nlohmann::ordered_json> opening(size_t) override { return {}; }
  std::optional<nlohmann::ordered_json> chunk(size_t choice, const TextOutput& output) override;

 protected:
  const char* chunk_object() const override { return "text_completion"; }
  nlohmann::ordered_json usage(std::span<const RequestUsage> usages) const override;

 private:
  /// What has been given of a choice.
  struct Given {
    int64_t characters = 0;
    bool prompt_ids = false;  ///< they belong to a choice's first chunk only
    bool echo = false;
  };

  nlohmann::ordered_json choice_json(size_t choice, const TextOutput& output);
  nlohmann::ordered_json logprobs_json(size_t choice, const TextOutput& output, bool echo_now);

  const Options options_;
  std::vector<Given> given_;                                ///< of each choice
  std::vector<std::vector<SampledToken>> prompt_logprobs_;  ///< of each prompt, for the echo
};

}  // namespace quire
