// Text in, text out, asynchronously: tokenizer, chat template, engine, detokenizer and stop strings behind one door. The server and LLM stand on it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "engine/engine.h"
#include "sampling/sampling_params.h"
#include "text/text_assets.h"

namespace quire {

/// A prompt, ready as ids (the caller tokenized or rendered it), with its parameters.
struct TextRequest {
  std::string id;
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int64_t priority = 0;
  std::string cache_salt;
  int32_t choice = 0;
};

/// What became known since the last output. Text deltas are whole characters; text that could be the start of a stop string is held back.
struct TextOutput {
  std::string text;
  std::vector<int32_t> token_ids;              ///< tokens of this output
  std::vector<SampledToken> tokens;            ///< the same with logprobs, where asked for
  std::vector<std::string> token_texts;        ///< the text that each token added (for logprobs and text_offset), where logprobs were asked for
  std::vector<SampledToken> prompt_logprobs;   ///< as RequestOutput's
  FinishReason finish_reason = FinishReason::kNone;
  std::optional<std::string> stop_string;      ///< the stop string that ended it
  std::optional<int32_t> stop_token_id;
  std::optional<Error> error;
  RequestUsage usage;

  bool finished() const { return finish_reason != FinishReason::kNone; }
};

/// Called on the output thread, in order; must be quick and must not throw.
using TextCallback = std::function<void(TextOutput&&)>;

class AsyncLlm {
 public:
  /// Loads the model and starts the engine. Errors are one sentence. `chat_template`: path or text, may be empty.
  static Result<std::unique_ptr<AsyncLlm>> create(const EngineConfig& config, const std::string& chat_template = {},
                                                  const std::string& tokenizer = {});
  ~AsyncLlm();

  const Tokenizer& tokenizer() const;
  const TextAssets& text() const;
  const ModelConfig& model_config() const;
  const EngineConfig& engine_config() const;
  const EngineLimits& limits() const;
  EngineStats stats() const;
  bool healthy() const;
  Engine& engine();

  /// Sampling defaults: the model's generation_config where it says something, else vLLM's.
  SamplingParams default_sampling_params() const;

  /// Judges and queues. After an Error the callback is never called.
  Status submit(TextRequest request, TextCallback callback);
  void abort(const std::string& id);

 private:
  struct Impl;
  explicit AsyncLlm(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
