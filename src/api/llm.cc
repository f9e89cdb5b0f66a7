// The public LLM over AsyncLlm. Outputs cross from the output thread to the caller's, which alone touches results and
// runs the caller's callback.
#include "quire/llm.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "api/async_llm.h"
#include "api/llm_convert.h"
#include "api/locate.h"
#include "api/prompt_truncation.h"
#include "base/default_log.h"
#include "text/chat_messages.h"
#include "text/chat_prompt.h"

namespace quire {
namespace {

/// Outputs on their way to the thread that waits in generate(). Shared with the callbacks, which may outlive the call.
class Inbox {
 public:
  void put(size_t index, TextOutput&& output) {
    {
      const std::lock_guard lock(mutex_);
      outputs_.emplace_back(index, std::move(output));
    }
    filled_.notify_one();
  }
  std::pair<size_t, TextOutput> take() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return !outputs_.empty(); });
    std::pair<size_t, TextOutput> first = std::move(outputs_.front());
    outputs_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::pair<size_t, TextOutput>> outputs_;
};

/// Runs `fn`, which returns a Result; exceptions become errors, so that none leaves the library.
template <typename T, typename Function>
Expected<T> guarded(Function&& fn) {
  try {
    Result<T> result = fn();
    if (!result.ok()) return to_public(result.error());
    return std::move(result).value();
  } catch (const std::exception& error) {
    return LLMError{LLMError::Code::kInternal, fmt::format("An internal fault: {}.", error.what()), {}};
  }
}

}  // namespace

struct LLM::Impl {
  Result<std::vector<int32_t>> prompt_ids(const Prompt& prompt, const SamplingParams& params) const;
  Status submit(const Prompt& prompt, const SamplingParams& params, RequestOutput& output, size_t index,
                const std::shared_ptr<Inbox>& inbox);
  Result<std::vector<RequestOutput>> generate(const std::vector<Prompt>& prompts,
                                              const std::vector<SamplingParams>& params, const StreamCallback& stream);
  Result<std::vector<RequestOutput>> collect(std::vector<RequestOutput> outputs, Inbox& inbox,
                                             const StreamCallback& stream);
  /// nullptr for a prompt without one; loads what is not in memory.
  Result<AdapterLease> adapter_of(const std::optional<LoraRequest>& lora) const;
  Result<Prompt> chat_prompt(const Conversation& conversation, const ChatOptions& options) const;

  std::unique_ptr<AsyncLlm> engine;
  std::atomic<uint64_t> next_id{0};
};

Result<AdapterLease> LLM::Impl::adapter_of(const std::optional<LoraRequest>& lora) const {
  if (!lora) return AdapterLease();
  AdapterCatalog* const adapters = engine->adapters();
  if (adapters == nullptr) {
    return invalid_argument(
        fmt::format("The prompt names the LoRA adapter '{}', but LLMOptions::enable_lora is not set.", lora->name),
        "lora");
  }
  AdapterSpec spec{lora->name, lora->path, {}, false};
  if (!adapters->knows(lora->name)) {
    QUIRE_ASSIGN_OR_RETURN(spec, locate_adapter(spec, engine->engine_config().hub));
  }
  return adapters->use_and_wait(spec);
}

Result<std::vector<int32_t>> LLM::Impl::prompt_ids(const Prompt& prompt, const SamplingParams& params) const {
  const int64_t max_model_len = engine->limits().max_model_len;
  if (prompt.text) {
    const EncodeText encode = [this](std::string_view text, bool add_special_tokens) {
      return engine->tokenizer().encode(text, add_special_tokens);
    };
    return encode_truncated(encode, *prompt.text, true, params, max_model_len);
  }
  std::vector<int32_t> ids = prompt.token_ids;
  QUIRE_ASSIGN_OR_RETURN(const std::optional<size_t> kept, kept_prompt_tokens(params, max_model_len));
  if (kept) truncate_prompt(ids, *kept, params.truncation_side);
  return ids;
}

Status LLM::Impl::submit(const Prompt& prompt, const SamplingParams& params, RequestOutput& output, size_t index,
                         const std::shared_ptr<Inbox>& inbox) {
  QUIRE_ASSIGN_OR_RETURN(output.prompt_token_ids, prompt_ids(prompt, params));
  output.request_id = std::to_string(next_id++);
  output.prompt = prompt.text;
  TextRequest request;
  request.id = output.request_id;
  // Until submit() judges it, n may be anything.
  output.outputs.resize(static_cast<size_t>(std::clamp<int64_t>(params.n, 1, kMaxChoices)));
  for (size_t choice = 0; choice < output.outputs.size(); ++choice)
    output.outputs[choice].index = static_cast<int32_t>(choice);
  request.prompt = output.prompt_token_ids;
  request.sampling = params;
  request.priority = prompt.priority;
  request.cache_salt = prompt.cache_salt;
  QUIRE_ASSIGN_OR_RETURN(request.adapter, adapter_of(prompt.lora));
  return engine->submit(std::move(request), [inbox, index](TextOutput&& text) { inbox->put(index, std::move(text)); });
}

Result<std::vector<LLM::RequestOutput>> LLM::Impl::generate(const std::vector<Prompt>& prompts,
                                                            const std::vector<SamplingParams>& params,
                                                            const StreamCallback& stream) {
  if (params.size() != prompts.size()) {
    return invalid_argument(
        fmt::format("There are {} prompts, but {} sampling parameters.", prompts.size(), params.size()), "params");
  }
  const auto inbox = std::make_shared<Inbox>();
  std::vector<RequestOutput> outputs(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (const Status status = submit(prompts[i], params[i], outputs[i], i, inbox); !status.ok()) {
      for (size_t k = 0; k < i; ++k) engine->abort(outputs[k].request_id);
      Error error = status.error();
      if (prompts.size() > 1) error.message = fmt::format("Prompt {}: {}", i, error.message);
      return error;
    }
  }
  return collect(std::move(outputs), *inbox, stream);
}

Result<std::vector<LLM::RequestOutput>> LLM::Impl::collect(std::vector<RequestOutput> outputs, Inbox& inbox,
                                                           const StreamCallback& stream) {
  std::optional<Error> callback_error;
  for (size_t running = outputs.size(); running > 0;) {
    auto [index, text] = inbox.take();
    RequestOutput delta = to_public(std::move(text), engine->tokenizer());
    delta.request_id = outputs[index].request_id;
    accumulate(outputs[index], delta);
    if (delta.finished) --running;
    if (!stream || callback_error) continue;
    try {
      stream(index, delta);
    } catch (const std::exception& error) {
      callback_error = invalid_argument(fmt::format("The stream callback threw: {}.", error.what()), "stream");
    } catch (...) {
      callback_error = invalid_argument("The stream callback threw.", "stream");
    }
    if (!callback_error) continue;
    for (const RequestOutput& output : outputs) engine->abort(output.request_id);
  }
  if (callback_error) return *callback_error;
  return outputs;
}

Result<LLM::Prompt> LLM::Impl::chat_prompt(const Conversation& conversation, const ChatOptions& options) const {
  using Json = nlohmann::ordered_json;
  const TextAssets& text = engine->text();
  if (text.chat_template == nullptr) {
    return invalid_argument("The model has no chat template: give one as chat_template, or use generate.",
                            "chat_template");
  }
  Json list = Json::array();
  for (const ChatMessage& message : conversation)
    list.push_back({{"role", message.role}, {"content", message.content}});
  QUIRE_ASSIGN_OR_RETURN(Json messages, normalize_messages(list, content_format_of(text.chat_template_source)));
  Json context = Json::object();
  if (!options.chat_template_kwargs.empty()) {
    context = Json::parse(options.chat_template_kwargs, nullptr, false);
    if (!context.is_object())
      return invalid_argument("chat_template_kwargs must be a JSON object.", "chat_template_kwargs");
  }
  context["messages"] = std::move(messages);
  context["add_generation_prompt"] = options.add_generation_prompt;
  context["bos_token"] = text.bos_token;
  context["eos_token"] = text.eos_token;
  context["pad_token"] = text.pad_token;
  context["unk_token"] = text.unk_token;
  context["tools"] = nullptr;
  QUIRE_ASSIGN_OR_RETURN(ChatPrompt rendered, encode_chat(*text.tokenizer, *text.chat_template, std::move(context)));
  return Prompt(std::move(rendered.token_ids));
}

LLM::LLM(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LLM::LLM(LLM&&) noexcept = default;
LLM& LLM::operator=(LLM&&) noexcept = default;
LLM::~LLM() = default;

Expected<LLM> LLM::create(const LLMOptions& options) {
  return guarded<LLM>([&]() -> Result<LLM> {
    keep_log_off_stdout();
    QUIRE_ASSIGN_OR_RETURN(const EngineConfig config, to_engine_config(options));
    auto impl = std::make_unique<Impl>();
    QUIRE_ASSIGN_OR_RETURN(impl->engine, AsyncLlm::create(config, options.chat_template, options.tokenizer));
    return LLM(std::move(impl));
  });
}

Expected<std::vector<LLM::RequestOutput>> LLM::generate(const std::vector<Prompt>& prompts,
                                                        const SamplingParams& params, const StreamCallback& stream) {
  return generate(prompts, std::vector<SamplingParams>(prompts.size(), params), stream);
}

Expected<std::vector<LLM::RequestOutput>> LLM::generate(const std::vector<Prompt>& prompts,
                                                        const std::vector<SamplingParams>& params,
                                                        const StreamCallback& stream) {
  return guarded<std::vector<RequestOutput>>([&] { return impl_->generate(prompts, params, stream); });
}

Expected<std::vector<LLM::RequestOutput>> LLM::chat(const std::vector<Conversation>& conversations,
                                                    const SamplingParams& params, const StreamCallback& stream) {
  return chat(conversations, params, stream, ChatOptions{});
}

Expected<std::vector<LLM::RequestOutput>> LLM::chat(const std::vector<Conversation>& conversations,
                                                    const SamplingParams& params, const StreamCallback& stream,
                                                    const ChatOptions& options) {
  return guarded<std::vector<RequestOutput>>([&]() -> Result<std::vector<RequestOutput>> {
    const size_t adapters = options.lora.size();
    if (adapters > 1 && adapters != conversations.size()) {
      return invalid_argument(
          fmt::format("There are {} conversations, but {} adapters.", conversations.size(), adapters), "lora");
    }
    std::vector<Prompt> prompts;
    for (size_t i = 0; i < conversations.size(); ++i) {
      QUIRE_ASSIGN_OR_RETURN(Prompt prompt, impl_->chat_prompt(conversations[i], options));
      if (adapters > 0) prompt.lora = options.lora[adapters == 1 ? 0 : i];
      prompts.push_back(std::move(prompt));
    }
    return impl_->generate(prompts, std::vector<SamplingParams>(prompts.size(), params), stream);
  });
}

Expected<uint64_t> LLM::add_lora(const LoraRequest& request, bool load_inplace) {
  return guarded<uint64_t>([&]() -> Result<uint64_t> {
    AdapterCatalog* const adapters = impl_->engine->adapters();
    if (adapters == nullptr) return invalid_argument("LLMOptions::enable_lora is not set.", "enable_lora");
    QUIRE_ASSIGN_OR_RETURN(const AdapterSpec spec,
                           locate_adapter({request.name, request.path, {}, false}, impl_->engine->engine_config().hub));
    QUIRE_ASSIGN_OR_RETURN(const AdapterLease lease, adapters->load_and_wait(spec, load_inplace));
    return lease->id;
  });
}

bool LLM::remove_lora(const std::string& name) {
  AdapterCatalog* const adapters = impl_->engine->adapters();
  return adapters != nullptr && !name.empty() && adapters->unload(name, std::nullopt).ok();
}

std::vector<std::string> LLM::list_loras() const {
  std::vector<std::string> names;
  const AdapterCatalog* const adapters = impl_->engine->adapters();
  if (adapters == nullptr) return names;
  for (const AdapterListing& row : adapters->list()) names.push_back(row.spec.name);
  return names;
}

void LLM::abort(const std::string& request_id) { impl_->engine->abort(request_id); }
SamplingParams LLM::get_default_sampling_params() const { return impl_->engine->default_sampling_params(); }
int64_t LLM::max_model_len() const { return impl_->engine->limits().max_model_len; }
int64_t LLM::vocab_size() const { return impl_->engine->limits().vocab_size; }
bool LLM::reset_prefix_cache() { return impl_->engine->engine().reset_prefix_cache(); }

Expected<std::vector<int32_t>> LLM::encode(const std::string& text, bool add_special_tokens) const {
  return guarded<std::vector<int32_t>>([&] { return impl_->engine->tokenizer().encode(text, add_special_tokens); });
}

Expected<std::string> LLM::decode(const std::vector<int32_t>& token_ids, bool skip_special_tokens) const {
  return guarded<std::string>([&] { return impl_->engine->tokenizer().decode(token_ids, skip_special_tokens); });
}

}  // namespace quire
