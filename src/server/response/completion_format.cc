// text_completion objects.
#include "server/response/completion_format.h"

#include "server/response/logprobs_format.h"

namespace quire {

using Json = nlohmann::ordered_json;

CompletionFormat::CompletionFormat(ResponseInfo info, Options options)
    : ResponseFormat(std::move(info)),
      options_(std::move(options)),
      given_(info_.choices()),
      prompt_logprobs_(info_.prompts.size()) {}

Json CompletionFormat::logprobs_json(size_t choice, const TextOutput& output, bool echo_now) {
  const size_t prompt = info_.prompt_of(choice);
  CompletionLogprobs logprobs(info_.token_name, given_[choice].characters);
  if (echo_now) {
    const EchoedPrompt& echoed = options_.echoed[prompt];
    logprobs.add_prompt(info_.prompts[prompt], prompt_logprobs_[prompt], echoed.token_texts);
    given_[choice].characters = count_characters(echoed.text);
  }
  if (!options_.prompt_only) logprobs.add_output(output);
  return std::move(logprobs).json();
}

Json CompletionFormat::choice_json(size_t choice, const TextOutput& output) {
  Given& given = given_[choice];
  const size_t prompt = info_.prompt_of(choice);
  const bool echo_now = !options_.echoed.empty() && !std::exchange(given.echo, true);
  std::string text = echo_now ? options_.echoed[prompt].text : "";
  if (!options_.prompt_only) text += output.text;
  Json json = {{"index", choice}, {"text", std::move(text)}};
  json["logprobs"] = options_.logprobs ? logprobs_json(choice, output, echo_now) : Json(nullptr);
  json["finish_reason"] = finish_reason_json(output);
  json["stop_reason"] = stop_reason_json(output);
  if (options_.prompt_only && output.finished()) {
    json["finish_reason"] = finish_reason_name(FinishReason::kLength);
    json["stop_reason"] = nullptr;
  }
  if (info_.return_token_ids) {
    if (!std::exchange(given.prompt_ids, true)) json["prompt_token_ids"] = info_.prompts[prompt];
    json["token_ids"] = options_.prompt_only ? Json::array() : Json(output.token_ids);
  }
  return json;
}

Json CompletionFormat::usage(std::span<const RequestUsage> usages) const {
  if (!options_.prompt_only) return ResponseFormat::usage(usages);
  std::vector<RequestUsage> prompts(usages.begin(), usages.end());
  for (RequestUsage& usage : prompts) usage.completion_tokens = 0;
  return ResponseFormat::usage(prompts);
}

Json CompletionFormat::whole(std::span<const TextOutput> choices) {
  Json answer = envelope("text_completion");
  std::vector<RequestUsage> usages;
  for (size_t i = 0; i < choices.size(); ++i) {
    const std::vector<SampledToken>& prompt_logprobs = choices[info_.leader_of(i)].prompt_logprobs;
    if (!options_.echoed.empty()) prompt_logprobs_[info_.prompt_of(i)] = prompt_logprobs;
    Json choice = choice_json(i, choices[i]);
    if (options_.prompt_logprobs) choice["prompt_logprobs"] = prompt_logprobs_json(prompt_logprobs, info_.token_name);
    answer["choices"].push_back(std::move(choice));
    usages.push_back(choices[i].usage);
  }
  answer["usage"] = usage(usages);
  return answer;
}

std::optional<Json> CompletionFormat::chunk(size_t choice, const TextOutput& output) {
  if (!options_.echoed.empty() && !output.prompt_logprobs.empty())
    prompt_logprobs_[info_.prompt_of(choice)] = output.prompt_logprobs;
  const bool tells_tokens = !output.token_ids.empty() && (options_.logprobs || info_.return_token_ids);
  const bool tells_prompt = !options_.echoed.empty() && !given_[choice].echo;
  const bool tells_output = !options_.prompt_only && (!output.text.empty() || tells_tokens);
  if (!tells_output && !tells_prompt && !output.finished()) return std::nullopt;
  Json chunk = envelope("text_completion");
  chunk["choices"].push_back(choice_json(choice, output));
  add_chunk_usage(chunk, output.usage);
  return chunk;
}

}  // namespace quire
