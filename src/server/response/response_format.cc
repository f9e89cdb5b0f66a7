// Parts that all answers have.
#include "server/response/response_format.h"

#include <iterator>

namespace quire {

using Json = nlohmann::ordered_json;

namespace {

template <typename T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

void merge_output(TextOutput& total, TextOutput&& next) {
  total.text += next.text;
  append(total.token_ids, std::move(next.token_ids));
  append(total.tokens, std::move(next.tokens));
  append(total.token_texts, std::move(next.token_texts));
  append(total.prompt_logprobs, std::move(next.prompt_logprobs));
  total.finish_reason = next.finish_reason;
  total.stop_string = std::move(next.stop_string);
  total.stop_token_id = next.stop_token_id;
  total.error = std::move(next.error);
  total.usage = next.usage;
}

Json usage_json(std::span<const RequestUsage> usages, int64_t n) {
  int64_t prompt = 0, completion = 0, cached = 0;
  for (size_t i = 0; i < usages.size(); ++i) {
    completion += usages[i].completion_tokens;
    if (i % static_cast<size_t>(n) != 0) continue;
    prompt += usages[i].prompt_tokens;
    cached += usages[i].cached_tokens;
  }
  return {{"prompt_tokens", prompt},
          {"total_tokens", prompt + completion},
          {"completion_tokens", completion},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

Json stop_reason_json(const TextOutput& output) {
  if (output.stop_string) return *output.stop_string;
  if (output.stop_token_id) return *output.stop_token_id;
  if (output.finish_reason == FinishReason::kRepetition) return kRepetitionDetected;
  return nullptr;
}

Json finish_reason_json(const TextOutput& output) {
  if (!output.finished()) return nullptr;
  return finish_reason_name(output.finish_reason);
}

Json ResponseFormat::envelope(const char* object) const {
  return {{"id", info_.id},
          {"object", object},
          {"created", info_.created},
          {"model", info_.model},
          {"choices", Json::array()}};
}

Json ResponseFormat::usage(std::span<const RequestUsage> usages) const {
  Json json = usage_json(usages, info_.n);
  if (info_.adapter_id != 0) {
    json["lora_name"] = info_.model;
    json["lora_int_id"] = info_.adapter_id;
  }
  return json;
}

void ResponseFormat::add_chunk_usage(Json& chunk, const RequestUsage& usage) const {
  if (!info_.include_usage) return;
  chunk["usage"] = info_.continuous_usage_stats ? this->usage({&usage, 1}) : Json(nullptr);
}

Json ResponseFormat::usage_chunk(std::span<const RequestUsage> usages) const {
  Json chunk = envelope(chunk_object());
  chunk["usage"] = usage(usages);
  return chunk;
}

}  // namespace quire
