#include "api/async_llm.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "api/output_pump.h"

namespace quire {

struct AsyncLlm::Impl {
  explicit Impl(AsyncLlmParts loaded)
      : parts(std::move(loaded)),
        eos_token_ids(parts.model.eos_token_ids),
        pump([this](const std::string& engine_id) { abort_in_engine(engine_id); }),
        engine(std::make_unique<Engine>(parts.config, parts.limits, std::move(parts.executor))) {
    const LoraConfig& lora = parts.config.lora;
    if (lora.enabled && parts.adapter_memory) {
      adapters = std::make_unique<AdapterCatalog>(AdapterCatalog::Options{lora.max_cpu_loras, lora.folder},
                                                  parts.adapter_memory(*engine));
    }
    const std::optional<int32_t>& eos = parts.text.eos_token_id;
    if (eos && std::find(eos_token_ids.begin(), eos_token_ids.end(), *eos) == eos_token_ids.end())
      eos_token_ids.push_back(*eos);
  }

  ~Impl() {
    if (adapters != nullptr) adapters->close();  // nothing is loaded into the engine from here on, nor removed
    std::unique_ptr<Engine> last;
    {
      const std::lock_guard lock(engine_gate);
      last = std::move(engine);
    }
    last.reset();  // ends every request; their last outputs are in the pump's queue now
    pump.stop();
  }

  /// The output thread may want to abort while the engine is being destroyed.
  void abort_in_engine(const std::string& engine_id) {
    const std::lock_guard lock(engine_gate);
    if (engine != nullptr) engine->abort(engine_id);
  }

  Status judge(const TextRequest& request) const;
  EngineRequest engine_request(TextRequest&& request);

  AsyncLlmParts parts;
  std::vector<int32_t> eos_token_ids;
  std::atomic<uint64_t> serial{0};
  std::mutex engine_gate;
  OutputPump pump;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<AdapterCatalog> adapters;
};

Status AsyncLlm::Impl::judge(const TextRequest& request) const {
  if (request.id.empty()) return invalid_argument("request_id must not be empty.", "request_id");
  return validate(request.sampling, parts.limits.max_logprobs);
}

EngineRequest AsyncLlm::Impl::engine_request(TextRequest&& request) {
  EngineRequest result;
  // A client may use an id again as soon as it has its last output, which a stop string can give before the engine has
  // ended the request.
  result.id = fmt::format("{}-{}", request.id, serial++);
  result.prompt = std::move(request.prompt);
  result.sampling = std::move(request.sampling);
  if (result.sampling.seed == -1) result.sampling.seed.reset();
  const int64_t room = parts.limits.max_model_len - static_cast<int64_t>(result.prompt.size());
  int64_t most = std::max<int64_t>(room, 1);  // a prompt that leaves no room is the engine's to refuse
  if (parts.model.generation.max_new_tokens)
    most = std::clamp<int64_t>(*parts.model.generation.max_new_tokens, 1, most);
  result.sampling.max_tokens = std::min(result.sampling.max_tokens.value_or(most), most);
  result.priority = request.priority;
  result.cache_salt = std::move(request.cache_salt);
  if (request.adapter != nullptr) {
    result.adapter_id = request.adapter->id;
    result.adapter = std::move(request.adapter);
  }
  result.eos_token_ids = eos_token_ids;
  result.choice = request.choice;
  return result;
}

AsyncLlm::AsyncLlm(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AsyncLlm::~AsyncLlm() = default;

std::unique_ptr<AsyncLlm> AsyncLlm::from_parts(AsyncLlmParts parts) {
  QUIRE_CHECK(parts.text.tokenizer != nullptr && parts.executor != nullptr);
  return std::unique_ptr<AsyncLlm>(new AsyncLlm(std::make_unique<Impl>(std::move(parts))));
}

const Tokenizer& AsyncLlm::tokenizer() const { return *impl_->parts.text.tokenizer; }
const TextAssets& AsyncLlm::text() const { return impl_->parts.text; }
const ModelConfig& AsyncLlm::model_config() const { return impl_->parts.model; }
const EngineConfig& AsyncLlm::engine_config() const { return impl_->parts.config; }
const EngineLimits& AsyncLlm::limits() const { return impl_->parts.limits; }
EngineStats AsyncLlm::stats() const { return impl_->engine->stats(); }
bool AsyncLlm::healthy() const { return impl_->engine->healthy(); }
Engine& AsyncLlm::engine() { return *impl_->engine; }
AdapterCatalog* AsyncLlm::adapters() { return impl_->adapters.get(); }

SamplingParams AsyncLlm::default_sampling_params() const {
  const GenerationConfig& generation = impl_->parts.model.generation;
  SamplingParams params;
  params.temperature = generation.temperature.value_or(params.temperature);
  params.top_p = generation.top_p.value_or(params.top_p);
  params.top_k = generation.top_k.value_or(params.top_k);
  return params;
}

Status AsyncLlm::submit(TextRequest request, TextCallback callback) {
  QUIRE_RETURN_IF_ERROR(impl_->judge(request));
  const std::string id = request.id;
  EngineRequest engine_request = impl_->engine_request(std::move(request));
  const std::string engine_id = engine_request.id;
  RequestText text(tokenizer(), engine_request.prompt, engine_request.sampling);
  QUIRE_ASSIGN_OR_RETURN(OutputCallback on_output,
                         impl_->pump.open(id, engine_id, std::move(text), std::move(callback)));
  if (Status status = impl_->engine->submit(std::move(engine_request), std::move(on_output)); !status.ok()) {
    impl_->pump.forget(id);
    return status;
  }
  // An abort that came before the engine knew the request did not reach it.
  if (impl_->pump.abort_requested(id)) impl_->abort_in_engine(engine_id);
  return {};
}

void AsyncLlm::abort(const std::string& id) {
  if (const std::optional<std::string> engine_id = impl_->pump.request_abort(id)) impl_->abort_in_engine(*engine_id);
}

}  // namespace quire
