// Forwards to AsyncLlm and its tokenizer; renders conversations with the model's template.
#include "server/async_llm_backend.h"

#include <nlohmann/json.hpp>

#include "text/detokenizer.h"

namespace quire {

namespace {

RequestRules make_rules(const AsyncLlm& llm) {
  RequestRules rules;
  rules.defaults = llm.default_sampling_params();
  rules.vocab_size = llm.limits().vocab_size;
  rules.max_logprobs = llm.limits().max_logprobs;
  rules.chat_max_tokens = llm.model_config().generation.max_new_tokens;
  return rules;
}

}  // namespace

AsyncLlmBackend::AsyncLlmBackend(AsyncLlm& llm)
    : llm_(llm), rules_(make_rules(llm)), text_limit_(llm.tokenizer(), llm.limits().max_model_len) {}

Result<std::vector<int32_t>> AsyncLlmBackend::encode(std::string_view text, bool add_special_tokens) const {
  QUIRE_RETURN_IF_ERROR(text_limit_.judge(text.size(), "prompt"));
  return llm_.tokenizer().encode(text, add_special_tokens);
}

Result<std::string> AsyncLlmBackend::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  return llm_.tokenizer().decode(ids, skip_special_tokens);
}

std::vector<std::string> AsyncLlmBackend::token_texts(std::span<const int32_t> ids, bool skip_special_tokens) const {
  Detokenizer detokenizer(llm_.tokenizer(), {}, skip_special_tokens);
  std::vector<std::string> texts;
  for (const int32_t id : ids) texts.push_back(detokenizer.push(id));
  if (!texts.empty()) texts.back() += detokenizer.finish();
  return texts;
}

std::optional<std::string> AsyncLlmBackend::id_to_token(int32_t id) const { return llm_.tokenizer().id_to_token(id); }
RequestRules AsyncLlmBackend::rules() const { return rules_; }
EngineLimits AsyncLlmBackend::limits() const { return llm_.limits(); }
EngineStats AsyncLlmBackend::stats() const { return llm_.stats(); }
bool AsyncLlmBackend::healthy() const { return llm_.healthy(); }
std::string AsyncLlmBackend::model_root() const { return llm_.engine_config().model; }
AdapterCatalog* AsyncLlmBackend::adapters() const { return llm_.adapters(); }
std::optional<int64_t> AsyncLlmBackend::max_loras() const { return llm_.engine_config().lora.max_loras; }

Status AsyncLlmBackend::submit(TextRequest request, TextCallback callback) {
  return llm_.submit(std::move(request), std::move(callback));
}

void AsyncLlmBackend::abort(const std::string& id) { llm_.abort(id); }

}  // namespace quire
