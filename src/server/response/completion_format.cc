// text_completion objects.
#include "server/response/completion_format.h"

#include "server/response/logprobs_format.h"

namespace quire {

using Json = nlohmann::ordered_json;

CompletionFormat::CompletionFormat(ResponseInfo info, bool logprobs, bool prompt_logprobs)
    : ResponseFormat(std::move(info)),
      logprobs_(logprobs),
      prompt_logprobs_(prompt_logprobs),
      offsets_(info_.prompts.size(), 0),
      prompt_ids_given_(info_.prompts.size(), false) {}

Json CompletionFormat::choice_json(size_t choice, const TextOutput& output) {
  Json json = {{"index", choice}, {"text", output.text}};
  json["logprobs"] = logprobs_ ? completion_logprobs(output, info_.token_name, offsets_[choice]) : Json(nullptr);
  json["finish_reason"] = finish_reason_json(output);
  json["stop_reason"] = stop_reason_json(output);
  if (info_.return_token_ids) {
    if (!prompt_ids_given_[choice]) json["prompt_token_ids"] = info_.prompts[choice];
    prompt_ids_given_[choice] = true;
    json["token_ids"] = output.token_ids;
  }
  return json;
}

Json CompletionFormat::whole(std::span<const TextOutput> choices) {
  Json answer = envelope("text_completion");
  std::vector<RequestUsage> usages;
  for (size_t i = 0; i < choices.size(); ++i) {
    Json choice = choice_json(i, choices[i]);
    if (prompt_logprobs_)
      choice["prompt_logprobs"] = prompt_logprobs_json(choices[i].prompt_logprobs, info_.token_name);
    answer["choices"].push_back(std::move(choice));
    usages.push_back(choices[i].usage);
  }
  answer["usage"] = usage(usages);
  return answer;
}

std::optional<Json> CompletionFormat::first_chunk(size_t) { return std::nullopt; }

std::optional<Json> CompletionFormat::chunk(size_t choice, const TextOutput& output) {
  const bool tells_tokens = !output.token_ids.empty() && (logprobs_ || info_.return_token_ids);
  if (output.text.empty() && !tells_tokens && !output.finished()) return std::nullopt;
  Json chunk = envelope("text_completion");
  chunk["choices"].push_back(choice_json(choice, output));
  add_chunk_usage(chunk, output.usage);
  return chunk;
}

}  // namespace quire
