// AsyncLlm as the server sees it.
#pragma once

#include "api/async_llm.h"
#include "server/serving_backend.h"
#include "server/text_limit.h"

namespace quire {

class AsyncLlmBackend final : public ServingBackend {
 public:
  /// `llm` must outlive it.
  explicit AsyncLlmBackend(AsyncLlm& llm);

  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special_tokens) const override;
  Result<std::vector<int32_t>> encode_chat(const Conversation& prompt) const override;
  Result<std::string> decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  std::optional<std::string> id_to_token(int32_t id) const override;
  std::vector<std::string> token_texts(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  RequestRules rules() const override;
  EngineLimits limits() const override;
  EngineStats stats() const override;
  bool healthy() const override;
  std::string model_root() const override;
  AdapterCatalog* adapters() const override;
  std::optional<int64_t> max_loras() const override;
  Status submit(TextRequest request, TextCallback callback) override;
  void abort(const std::string& id) override;

 private:
  AsyncLlm& llm_;
  const RequestRules rules_;
  const TextLimit text_limit_;
};

}  // namespace quire
