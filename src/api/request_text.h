// One request's way from tokens to text: detokenizer, stop strings, counts.
#pragma once

#include <span>

#include "api/stop_checker.h"
#include "api/text_output.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace quire {

/// Streaming and whole answers go through here alike, so their text is the same. Not thread-safe.
class RequestText {
 public:
  /// The tokenizer must outlive it.
  RequestText(const Tokenizer& tokenizer, std::span<const int32_t> prompt, const SamplingParams& sampling);

  /// The engine's next output as text. When a stop string is found, the result is finished though the engine's request
  /// is not: the caller aborts that. Not to be called after a finished result.
  TextOutput process(RequestOutput&& output);

 private:
  void add_token(SampledToken&& token, bool show, TextOutput& result);
  void end(TextOutput& result);

  Detokenizer detokenizer_;
  StopChecker stops_;
  bool include_stop_;
  bool want_logprobs_;
  int64_t min_tokens_;
  int64_t completion_tokens_ = 0;
};

}  // namespace quire
