// Answers of /v1/chat/completions: chat.completion objects and chat.completion.chunk deltas.
#pragma once

#include "server/response/response_format.h"

namespace quire {

class ChatFormat final : public ResponseFormat {
 public:
  /// `echo`: text that the content begins with.
  ChatFormat(ResponseInfo info, bool logprobs, bool prompt_logprobs, std::string echo = {});

  nlohmann::ordered_json whole(std::span<const TextOutput> choices) override;
  std::vector<nlohmann::ordered_json> opening(size_t choice) override;
  std::optional<nlohmann::ordered_json> chunk(size_t choice, const TextOutput& output) override;

 protected:
  const char* chunk_object() const override { return "chat.completion.chunk"; }

 private:
  nlohmann::ordered_json choice_json(size_t choice, const TextOutput& output) const;

  bool logprobs_, prompt_logprobs_;
  std::string echo_;
};

}  // namespace quire
