// Text in, text out, asynchronously: tokenizer, chat template, engine, detokenizer and stop strings behind one door.
// The server and LLM stand on it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/adapter_catalog.h"
#include "api/text_output.h"
#include "base/result.h"
#include "checkpoint/model_config.h"
#include "engine/engine.h"
#include "text/text_assets.h"

namespace quire {

/// What AsyncLlm is made of.
struct AsyncLlmParts {
  EngineConfig config;
  EngineLimits limits;
  ModelConfig model;
  TextAssets text;
  std::unique_ptr<Executor> executor;
  /// With config.lora.enabled: where adapters are loaded into, given the engine.
  std::function<std::unique_ptr<AdapterMemory>(Engine&)> adapter_memory;
};

/// Sampling defaults: the model's generation_config where it says something, else vLLM's.
SamplingParams sampling_defaults(const GenerationConfig& generation);

/// Thread-safe. Must not be destroyed from a callback.
class AsyncLlm {
 public:
  /// Loads the model and starts the engine. Errors are one sentence. `chat_template`: path or text, may be empty.
  /// `tokenizer`: where to read the tokenizer from if not from the model.
  static Result<std::unique_ptr<AsyncLlm>> create(const EngineConfig& config, const std::string& chat_template = {},
                                                  const std::string& tokenizer = {});
  /// From parts that are loaded already.
  static std::unique_ptr<AsyncLlm> from_parts(AsyncLlmParts parts);
  /// Ends what still runs with kAbort.
  ~AsyncLlm();

  const Tokenizer& tokenizer() const;
  const TextAssets& text() const;
  const ModelConfig& model_config() const;
  const EngineConfig& engine_config() const;
  const EngineLimits& limits() const;
  EngineStats stats() const;
  bool healthy() const;
  Engine& engine();
  /// The adapters on offer; nullptr without config.lora.enabled.
  AdapterCatalog* adapters();

  /// Those of the loaded model.
  SamplingParams default_sampling_params() const;

  /// Judges and queues. After an Error the callback is never called. max_tokens is cut to what the context leaves and
  /// to generation_config's max_new_tokens. With sampling.n the callback gets the outputs of all choices. The prompt is
  /// taken as it is: truncate_prompt_tokens is the caller's.
  Status submit(TextRequest request, TextCallback callback);
  /// Ends a request with kAbort (one last output). Unknown ids are ignored; may be called at any time, from callbacks
  /// too.
  void abort(const std::string& id);

 private:
  struct Impl;
  explicit AsyncLlm(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
