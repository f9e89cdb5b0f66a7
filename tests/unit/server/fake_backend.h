// A backend that plays a script: one token per character, an engine thread of its own, nothing of a model.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/serving_backend.h"

namespace quire {

/// Token ids are bytes; the vocabulary has 256. A request's answer is its prompt's text repeated, one token per `step`.
class FakeBackend final : public ServingBackend {
 public:
  explicit FakeBackend(std::chrono::milliseconds step = std::chrono::milliseconds(0)) : step_(step) {}
  ~FakeBackend() override {
    for (std::thread& thread : threads_) thread.join();
  }

  Result<std::vector<int32_t>> encode(std::string_view text, bool) const override {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  Result<std::vector<int32_t>> encode_chat(const Conversation& conversation) const override {
    if (!has_template)
      return invalid_argument("This model has no chat template: give one with --chat-template.", "messages");
    std::string text;
    for (const auto& message : conversation.messages) text += message["content"].get<std::string>();
    return encode(text, false);
  }
  Result<std::string> decode(std::span<const int32_t> ids, bool) const override {
    std::string text;
    for (const int32_t id : ids) text += static_cast<char>(id);
    return text;
  }
  std::optional<std::string> id_to_token(int32_t id) const override { return std::string(1, static_cast<char>(id)); }
  std::vector<std::string> token_texts(std::span<const int32_t> ids, bool) const override {
    std::vector<std::string> texts;
    for (const int32_t id : ids) texts.emplace_back(1, static_cast<char>(id));
    return texts;
  }
  RequestRules rules() const override {
    RequestRules rules;
    rules.vocab_size = 256;
    rules.max_logprobs = 20;
    return rules;
  }
  EngineLimits limits() const override {
    EngineLimits limits;
    limits.max_model_len = 4096;
    limits.block_size = 16;
    limits.vocab_size = 256;
    return limits;
  }
  EngineStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  bool healthy() const override { return is_healthy; }
  std::string model_root() const override { return "fake"; }
  AdapterCatalog* adapters() const override { return catalog.get(); }

  Status submit(TextRequest request, TextCallback callback) override {
    if (request.prompt.size() >= 4096) {
      return invalid_argument("The prompt has 5000 tokens, but the context has 4096.", "prompt");
    }
    const std::lock_guard lock(mutex_);
    aborted_[request.id] = false;
    ++stats_.running;
    if (request.adapter) stats_.adapters = {{request.adapter->id, 1, 0}};
    threads_.emplace_back([this, request, callback] { play(request, callback); });
    return {};
  }
  void abort(const std::string& id) override {
    const std::lock_guard lock(mutex_);
    if (const auto found = aborted_.find(id); found != aborted_.end()) found->second = true;
  }

  bool has_template = true;
  std::unique_ptr<AdapterCatalog> catalog;  ///< none: no adapters
  std::atomic<bool> is_healthy{true};

 private:
  bool is_aborted(const std::string& id) const {
    const std::lock_guard lock(mutex_);
    return aborted_.at(id);
  }

  void play(const TextRequest& request, const TextCallback& callback) {
    for (int32_t choice = 0; choice < request.sampling.n; ++choice) play_choice(request, choice, callback);
  }
  void play_choice(const TextRequest& request, int32_t choice, const TextCallback& callback) {
    const int64_t count = request.sampling.max_tokens.value_or(8);
    TextOutput output;
    for (int64_t i = 0; i < count; ++i) {
      if (step_.count() > 0) std::this_thread::sleep_for(step_);
      output = {};
      output.choice = choice;
      if (i == 0 && choice == 0 && request.sampling.prompt_logprobs) {
        for (size_t k = 1; k < request.prompt.size(); ++k)
          output.prompt_logprobs.push_back({request.prompt[k], {{request.prompt[k], -0.25f, 1}}});
      }
      output.usage.prompt_tokens = static_cast<int64_t>(request.prompt.size());
      output.usage.completion_tokens = i + 1;
      const bool aborted = is_aborted(request.id);
      if (!aborted) add_token(output, request, i);
      output.finish_reason = aborted          ? FinishReason::kAbort
                             : i + 1 == count ? FinishReason::kLength
                                              : FinishReason::kNone;
      if (output.finished() && choice + 1 == request.sampling.n) count_finished(aborted);
      const bool last = output.finished();
      callback(std::move(output));
      if (last) return;
    }
  }
  static void add_token(TextOutput& output, const TextRequest& request, int64_t position) {
    // An adapter answers with the first letter of its name.
    const int32_t id = request.adapter ? request.adapter->name[0]
                                       : request.prompt[static_cast<size_t>(position) % request.prompt.size()];
    output.text = std::string(1, static_cast<char>(id));
    output.token_ids = {id};
    if (!request.sampling.logprobs) return;
    output.tokens = {{id, {{id, -0.5f, 1}, {id, -0.5f, 1}}}};
    output.token_texts = {output.text};
  }
  void count_finished(bool aborted) {
    const std::lock_guard lock(mutex_);
    --stats_.running;
    ++(aborted ? stats_.finished_abort : stats_.finished_length);
  }

  const std::chrono::milliseconds step_;
  mutable std::mutex mutex_;
  std::map<std::string, bool> aborted_;
  EngineStats stats_;
  std::vector<std::thread> threads_;
};

}  // namespace quire
