#include "api/model_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <memory>

namespace quire {

Status try_model(AsyncLlm& llm) {
  constexpr int64_t kPromptTokens = 3;
  TextRequest request;
  request.id = "trial";
  request.prompt.assign(static_cast<size_t>(std::clamp<int64_t>(llm.limits().max_model_len - 1, 1, kPromptTokens)), 0);
  request.sampling.max_tokens = 1;
  request.sampling.temperature = 0;
  const auto ended = std::make_shared<std::promise<std::optional<Error>>>();
  QUIRE_RETURN_IF_ERROR(llm.submit(std::move(request), [ended](TextOutput&& output) {
    if (output.finished()) ended->set_value(output.error);
  }));
  const std::optional<Error> error = ended->get_future().get();
  if (!error) return {};
  return internal_error(
      fmt::format("the model {} fails at its first tokens: {}", llm.model_config().architecture, error->message));
}

}  // namespace quire
