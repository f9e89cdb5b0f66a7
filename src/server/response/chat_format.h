// Answers of /v1/chat/completions: chat.completion objects and chat.completion.chunk deltas.
#pragma once

#include "server/response/response_format.h"

namespace quire {

class ChatFormat final : public ResponseFormat {
 public:
  ChatFormat(ResponseInfo info, bool logprobs, bool prompt_logprobs);

  nlohmann::ordered_json whole(std::span<const TextOutput> choices) override;
  std::optional<nlohmann::ordered_json> first_chunk(size_t choice) override;
  std::optional<nlohmann::ordered_json> chunk(size_t choice, const TextOutput& output) override;

 protected:
  const char* chunk_object() const override { return "chat.completion.chunk"; }

 private:
  nlohmann::ordered_json choice_json(size_t choice, const TextOutput& output) const;

  bool logprobs_, prompt_logprobs_;
};

}  // namespace quire
