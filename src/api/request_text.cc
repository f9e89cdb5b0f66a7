#include "api/request_text.h"

#include <utility>

namespace quire {

RequestText::RequestText(const Tokenizer& tokenizer, std::span<const int32_t> prompt, const SamplingParams& sampling)
    : detokenizer_(tokenizer, prompt, sampling.skip_special_tokens, sampling.spaces_between_special_tokens),
      stops_(sampling.stop, sampling.include_stop_str_in_output),
      include_stop_(sampling.include_stop_str_in_output),
      want_logprobs_(sampling.logprobs.has_value()),
      min_tokens_(sampling.min_tokens) {}

TextOutput RequestText::process(RequestOutput&& output) {
  TextOutput result;
  result.prompt_logprobs = std::move(output.prompt_logprobs);
  result.finish_reason = output.finish_reason;
  result.stop_token_id = output.stop_token_id;
  result.error = std::move(output.error);
  // The token that ended the answer has no text, unless it is one of stop_token_ids and the client wants to see what
  // stopped it.
  const bool hide_last = output.finish_reason == FinishReason::kStop && !(include_stop_ && output.stop_token_id);
  for (size_t i = 0; i < output.tokens.size() && !stops_.matched(); ++i) {
    add_token(std::move(output.tokens[i]), !(hide_last && i + 1 == output.tokens.size()), result);
  }
  if (result.finished() && !stops_.matched()) end(result);
  if (stops_.matched()) {
    result.finish_reason = FinishReason::kStop;
    result.stop_string = stops_.matched();
    result.stop_token_id.reset();
    result.error.reset();
  }
  result.usage = output.usage;
  result.usage.completion_tokens = completion_tokens_;
  return result;
}

void RequestText::add_token(SampledToken&& token, bool show, TextOutput& result) {
  ++completion_tokens_;
  result.token_ids.push_back(token.token);
  std::string text = show ? detokenizer_.push(token.token) : std::string();
  result.text += stops_.push(text, completion_tokens_ > min_tokens_);
  if (!want_logprobs_) return;
  result.tokens.push_back(std::move(token));
  result.token_texts.push_back(std::move(text));
}

void RequestText::end(TextOutput& result) {
  const std::string tail = detokenizer_.finish();
  result.text += stops_.push(tail, completion_tokens_ > min_tokens_);
  result.text += stops_.finish();
  if (!result.token_texts.empty()) result.token_texts.back() += tail;
}

}  // namespace quire
