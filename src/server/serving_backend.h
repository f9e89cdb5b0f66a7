// What the server needs of the engine's API, as an interface: AsyncLlm behind it in the program, a script in tests.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/async_llm.h"
#include "server/protocol/conversation.h"
#include "server/protocol/generation_fields.h"

namespace quire {

/// Thread-safe.
class ServingBackend {
 public:
  virtual ~ServingBackend() = default;

  virtual Result<std::vector<int32_t>> encode(std::string_view text, bool add_special_tokens) const = 0;
  /// Renders the conversation with the model's template and encodes it. A model without a template: an Error that says
  /// how to give one.
  virtual Result<std::vector<int32_t>> encode_chat(const Conversation& prompt) const = 0;
  virtual Result<std::string> decode(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;
  /// The vocabulary's string for an id.
  virtual std::optional<std::string> id_to_token(int32_t id) const = 0;

  /// What each token adds to the text of all of them.
  virtual std::vector<std::string> token_texts(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;

  virtual RequestRules rules() const = 0;
  virtual EngineLimits limits() const = 0;
  virtual EngineStats stats() const = 0;
  virtual bool healthy() const = 0;
  /// The model as it was named at start: a folder, a file or a hub name.
  virtual std::string model_root() const = 0;
  /// The adapters on offer; nullptr where there can be none.
  virtual AdapterCatalog* adapters() const { return nullptr; }
  /// --max-loras.
  virtual std::optional<int64_t> max_loras() const { return std::nullopt; }

  /// Judges and queues. After an Error the callback is never called; else it is called, in order, up to a finished
  /// output.
  virtual Status submit(TextRequest request, TextCallback callback) = 0;
  virtual void abort(const std::string& id) = 0;
};

}  // namespace quire
