// Answers of /v1/completions: text_completion objects, whole and in chunks alike.
#pragma once

#include <vector>

#include "server/response/response_format.h"

namespace quire {

class CompletionFormat final : public ResponseFormat {
 public:
  CompletionFormat(ResponseInfo info, bool logprobs, bool prompt_logprobs);

  nlohmann::ordered_json whole(std::span<const TextOutput> choices) override;
  std::optional<nlohmann::ordered_json> first_chunk(size_t choice) override;
  std::optional<nlohmann::ordered_json> chunk(size_t choice, const TextOutput& output) override;

 protected:
  const char* chunk_object() const override { return "text_completion"; }

 private:
  nlohmann::ordered_json choice_json(size_t choice, const TextOutput& output);

  bool logprobs_, prompt_logprobs_;
  std::vector<int64_t> offsets_;        ///< characters given out, per choice
  std::vector<bool> prompt_ids_given_;  ///< prompt_token_ids belong to a choice's first chunk only
};

}  // namespace quire
