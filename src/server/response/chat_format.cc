// chat.completion objects and chunks.
#include "server/response/chat_format.h"

#include "server/response/logprobs_format.h"

namespace quire {

using Json = nlohmann::ordered_json;

ChatFormat::ChatFormat(ResponseInfo info, bool logprobs, bool prompt_logprobs, std::string echo)
    : ResponseFormat(std::move(info)), logprobs_(logprobs), prompt_logprobs_(prompt_logprobs), echo_(std::move(echo)) {}

Json ChatFormat::choice_json(size_t choice, const TextOutput& output) const {
  Json json = {{"index", choice}};
  json["message"] = {{"role", "assistant"}, {"content", echo_ + output.text}, {"refusal", nullptr}};
  json["logprobs"] = logprobs_ ? chat_logprobs(output, info_.token_name) : Json(nullptr);
  json["finish_reason"] = finish_reason_json(output);
  json["stop_reason"] = stop_reason_json(output);
  if (info_.return_token_ids) json["token_ids"] = output.token_ids;
  return json;
}

Json ChatFormat::whole(std::span<const TextOutput> choices) {
  Json answer = envelope("chat.completion");
  std::vector<RequestUsage> usages;
  for (size_t i = 0; i < choices.size(); ++i) {
    answer["choices"].push_back(choice_json(i, choices[i]));
    usages.push_back(choices[i].usage);
  }
  answer["usage"] = usage(usages);
  answer["prompt_logprobs"] =
      prompt_logprobs_ ? prompt_logprobs_json(choices[0].prompt_logprobs, info_.token_name) : Json(nullptr);
  if (info_.return_token_ids) answer["prompt_token_ids"] = info_.prompts[0];
  return answer;
}

std::vector<Json> ChatFormat::opening(size_t choice) {
  const std::vector<int32_t>& prompt = info_.prompts[info_.prompt_of(choice)];
  RequestUsage usage;
  usage.prompt_tokens = static_cast<int64_t>(prompt.size());
  std::vector<Json> chunks;
  const auto add = [&](Json delta) {
    Json& chunk = chunks.emplace_back(envelope(chunk_object()));
    chunk["choices"].push_back(
        {{"index", choice}, {"delta", std::move(delta)}, {"logprobs", nullptr}, {"finish_reason", nullptr}});
    if (info_.return_token_ids && chunks.size() == 1) chunk["prompt_token_ids"] = prompt;
    add_chunk_usage(chunk, usage);
  };
  add({{"role", "assistant"}, {"content", ""}});
  if (!echo_.empty()) add({{"content", echo_}});
  return chunks;
}

std::optional<Json> ChatFormat::chunk(size_t choice, const TextOutput& output) {
  const bool tells_tokens = !output.token_ids.empty() && (logprobs_ || info_.return_token_ids);
  if (output.text.empty() && !tells_tokens && !output.finished()) return std::nullopt;
  Json json = {{"index", choice}, {"delta", Json::object()}};
  if (!output.text.empty() || !output.finished()) json["delta"]["content"] = output.text;
  json["logprobs"] = logprobs_ && !output.tokens.empty() ? chat_logprobs(output, info_.token_name) : Json(nullptr);
  json["finish_reason"] = finish_reason_json(output);
  if (output.finished()) json["stop_reason"] = stop_reason_json(output);
  if (info_.return_token_ids) json["token_ids"] = output.token_ids;
  Json chunk = envelope(chunk_object());
  chunk["choices"].push_back(std::move(json));
  add_chunk_usage(chunk, output.usage);
  return chunk;
}

}  // namespace quire
