#include "api/async_llm.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "api/beam_search.h"
#include "api/output_pump.h"
#include "api/spell_bad_words.h"

namespace quire {
namespace {

/// The engine's requests for the choices of one: alike, but for what tells them apart. The first one's prompt logprobs
/// are all choices'; its pages too.
std::vector<EngineRequest> choices_of(EngineRequest&& request) {
  const auto count = static_cast<int32_t>(request.sampling.n);
  std::vector<EngineRequest> choices;
  choices.reserve(static_cast<size_t>(count));
  choices.push_back(std::move(request));
  for (int32_t index = 1; index < count; ++index) {
    EngineRequest& choice = choices.emplace_back(choices[0]);
    choice.id = fmt::format("{}-{}", choices[0].id, index);
    choice.choice = index;
    choice.shares_prompt_with = choices[0].id;
    choice.sampling.prompt_logprobs.reset();
  }
  return choices;
}

}  // namespace

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

  void abort(const std::string& id) {
    std::shared_ptr<BeamSearch> search;
    {
      const std::lock_guard lock(searches_mutex);
      if (const auto found = searches.find(id); found != searches.end()) search = found->second;
    }
    if (search != nullptr) return search->abort();
    for (const std::string& engine_id : pump.request_abort(id)) abort_in_engine(engine_id);
  }

  void forget_search(const std::string& id) {
    const std::lock_guard lock(searches_mutex);
    searches.erase(id);
  }

  /// The output thread submits too, for beam searches, while the engine may be being destroyed.
  Status submit_to_engine(EngineRequest request, OutputCallback callback) {
    const std::lock_guard lock(engine_gate);
    if (engine == nullptr) return Error{ErrorKind::kUnavailable, "The engine has stopped and takes no requests.", {}};
    return engine->submit(std::move(request), std::move(callback));
  }

  Status judge(const TextRequest& request) const;
  Result<EngineRequest> engine_request(TextRequest&& request);
  int64_t settled_max_tokens(const TextRequest& request) const;
  Status start_search(TextRequest request, TextCallback callback);
  Status submit(const std::string& id, std::vector<EngineRequest> choices, TextCallback callback);

  AsyncLlmParts parts;
  std::vector<int32_t> eos_token_ids;
  std::atomic<uint64_t> serial{0};
  std::mutex engine_gate;
  OutputPump pump;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<AdapterCatalog> adapters;
  std::mutex searches_mutex;
  std::map<std::string, std::shared_ptr<BeamSearch>> searches;  ///< beam searches that run
};

Status AsyncLlm::Impl::judge(const TextRequest& request) const {
  if (request.id.empty()) return invalid_argument("request_id must not be empty.", "request_id");
  return validate(request.sampling, {parts.limits.max_logprobs, parts.limits.vocab_size});
}

Result<EngineRequest> AsyncLlm::Impl::engine_request(TextRequest&& request) {
  EngineRequest result;
  QUIRE_ASSIGN_OR_RETURN(result.bad_words,
                         spell_bad_words(request.sampling.bad_words, *parts.text.tokenizer, parts.limits.vocab_size));
  // A client may use an id again as soon as it has its last output, which a stop string can give before the engine has
  // ended the request.
  result.id = fmt::format("{}-{}", request.id, serial++);
  const int64_t max_tokens = settled_max_tokens(request);
  result.prompt = std::move(request.prompt);
  result.sampling = std::move(request.sampling);
  result.sampling.max_tokens = max_tokens;
  if (result.sampling.seed == -1) result.sampling.seed.reset();
  result.priority = request.priority;
  result.cache_salt = std::move(request.cache_salt);
  if (request.adapter != nullptr) {
    result.adapter_id = request.adapter->id;
    result.adapter = std::move(request.adapter);
  }
  result.eos_token_ids = eos_token_ids;
  return result;
}

/// What was asked for, cut to what the context leaves and to what the model's generation config allows.
int64_t AsyncLlm::Impl::settled_max_tokens(const TextRequest& request) const {
  const int64_t room = parts.limits.max_model_len - static_cast<int64_t>(request.prompt.size());
  int64_t most = std::max<int64_t>(room, 1);  // a prompt that leaves no room is the engine's to refuse
  if (parts.model.generation.max_new_tokens)
    most = std::clamp<int64_t>(*parts.model.generation.max_new_tokens, 1, most);
  return std::min(request.sampling.max_tokens.value_or(most), most);
}

Status AsyncLlm::Impl::start_search(TextRequest request, TextCallback callback) {
  const std::string id = request.id;
  request.sampling.max_tokens = settled_max_tokens(request);
  BeamSearch::Host host;
  host.submit = [this](TextRequest one, TextCallback on_output) -> Status {
    const std::string one_id = one.id;
    QUIRE_ASSIGN_OR_RETURN(EngineRequest engine_request, this->engine_request(std::move(one)));
    engine_request.logprobs_mode = LogprobsMode::kRawLogprobs;
    return submit(one_id, choices_of(std::move(engine_request)), std::move(on_output));
  };
  host.abort = [this](const std::string& one) { abort(one); };
  host.ended = [this, id] { forget_search(id); };
  host.tokenizer = parts.text.tokenizer.get();
  host.eos_token_ids = eos_token_ids;
  const auto search = std::make_shared<BeamSearch>(std::move(host), std::move(request), std::move(callback));
  {
    const std::lock_guard lock(searches_mutex);
    if (!searches.emplace(id, search).second) {
      return invalid_argument(
          fmt::format("request_id '{}' belongs to a request that is still running; use another.", id), "request_id");
    }
  }
  Status status = search->start();
  if (!status.ok()) forget_search(id);
  return status;
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

SamplingParams AsyncLlm::default_sampling_params() const { return sampling_defaults(impl_->parts.model.generation); }

SamplingParams sampling_defaults(const GenerationConfig& generation) {
  SamplingParams params;
  params.temperature = generation.temperature.value_or(params.temperature);
  params.top_p = generation.top_p.value_or(params.top_p);
  params.top_k = generation.top_k.value_or(params.top_k);
  params.min_p = generation.min_p.value_or(params.min_p);
  params.repetition_penalty = generation.repetition_penalty.value_or(params.repetition_penalty);
  return params;
}

Status AsyncLlm::submit(TextRequest request, TextCallback callback) {
  QUIRE_RETURN_IF_ERROR(impl_->judge(request));
  if (request.sampling.use_beam_search) return impl_->start_search(std::move(request), std::move(callback));
  const std::string id = request.id;
  QUIRE_ASSIGN_OR_RETURN(EngineRequest engine_request, impl_->engine_request(std::move(request)));
  return impl_->submit(id, choices_of(std::move(engine_request)), std::move(callback));
}

Status AsyncLlm::Impl::submit(const std::string& id, std::vector<EngineRequest> choices, TextCallback callback) {
  std::vector<OutputPump::Choice> texts;
  for (const EngineRequest& choice : choices)
    texts.push_back({choice.id, RequestText(*parts.text.tokenizer, choice.prompt, choice.sampling)});
  QUIRE_ASSIGN_OR_RETURN(std::vector<OutputCallback> callbacks, pump.open(id, std::move(texts), std::move(callback)));
  for (size_t index = 0; index < choices.size(); ++index) {
    const OutputCallback on_output = callbacks[index];
    Status status = submit_to_engine(std::move(choices[index]), std::move(callbacks[index]));
    if (status.ok()) continue;
    if (index == 0) {
      pump.forget(id);
      return status;
    }
    // What the engine took of the first it takes of all, unless it has stopped meanwhile; the first has been given out.
    RequestOutput failed;
    failed.finish_reason = FinishReason::kError;
    failed.error = status.error();
    on_output(std::move(failed));
  }
  // An abort that came before the engine knew the request did not reach it.
  if (pump.abort_requested(id)) abort(id);
  return {};
}

void AsyncLlm::abort(const std::string& id) { impl_->abort(id); }

}  // namespace quire
