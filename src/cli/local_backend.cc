// The TextBackend over a model in this process.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/adapter_flags.h"
#include "cli/interrupt.h"
#include "cli/local_model.h"
#include "cli/text_backend.h"
#include "server/async_llm_backend.h"

namespace quire::cli {
namespace {

/// Hands outputs from the engine's thread to the one that prints.
struct Inbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<TextOutput> outputs;
};

class LocalBackend : public TextBackend {
 public:
  LocalBackend(std::unique_ptr<AsyncLlm> llm, TextOptions options)
      : llm_(std::move(llm)), options_(std::move(options)) {
    for (AdapterLease& lease : load_adapters(*llm_, specs_of_paths(options_.lora))) adapter_ = std::move(lease);
  }

  std::string model_name() const override { return llm_->engine_config().model; }

  Result<GenerationStats> chat(const nlohmann::ordered_json& messages, const TextSink& sink) override {
    Conversation conversation;
    conversation.messages = messages;
    QUIRE_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, AsyncLlmBackend(*llm_).encode_chat(conversation));
    SamplingParams sampling = llm_->default_sampling_params();
    sampling.max_tokens = options_.max_tokens;
    return generate(std::move(prompt), std::move(sampling), sink);
  }

  Result<GenerationStats> complete(const std::string& text, const TextSink& sink) override {
    QUIRE_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, llm_->tokenizer().encode(text, true));
    SamplingParams sampling = llm_->default_sampling_params();
    if (options_.max_tokens) sampling.max_tokens = options_.max_tokens;
    return generate(std::move(prompt), std::move(sampling), sink);
  }

 private:
  Result<GenerationStats> generate(std::vector<int32_t> prompt, SamplingParams sampling, const TextSink& sink) {
    if (options_.temperature) sampling.temperature = *options_.temperature;
    const std::string id = "chat-" + std::to_string(next_id_++);
    const auto inbox = std::make_shared<Inbox>();
    QUIRE_RETURN_IF_ERROR(
        llm_->submit({.id = id, .prompt = std::move(prompt), .sampling = std::move(sampling), .adapter = adapter_},
                     [inbox](TextOutput&& output) {
                       const std::lock_guard lock(inbox->mutex);
                       inbox->outputs.push_back(std::move(output));
                       inbox->changed.notify_one();
                     }));
    const InterruptGuard guard;
    bool aborted = false;
    while (true) {
      std::vector<TextOutput> outputs;
      {
        std::unique_lock lock(inbox->mutex);
        inbox->changed.wait_for(lock, std::chrono::milliseconds(100), [&] { return !inbox->outputs.empty(); });
        outputs.swap(inbox->outputs);
      }
      if (InterruptGuard::interrupted() && !std::exchange(aborted, true)) llm_->abort(id);
      for (const TextOutput& output : outputs) {
        if (!output.text.empty()) sink(output.text);
        if (output.error) return *output.error;
        if (output.finished()) return stats_of(output.usage);
      }
    }
  }

  static GenerationStats stats_of(const RequestUsage& usage) {
    return {.prompt_tokens = usage.prompt_tokens,
            .output_tokens = usage.completion_tokens,
            .first_token_seconds = usage.first_token_time - usage.arrival_time,
            .seconds = usage.last_token_time - usage.arrival_time};
  }

  std::unique_ptr<AsyncLlm> llm_;
  TextOptions options_;
  AdapterLease adapter_;  ///< nullptr: the model alone
  int64_t next_id_ = 0;
};

}  // namespace

std::unique_ptr<TextBackend> load_backend(const EngineArguments& arguments, const TextOptions& options) {
  return std::make_unique<LocalBackend>(start_local_model(arguments, false), options);
}

}  // namespace quire::cli
