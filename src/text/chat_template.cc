// The ChatTemplate over the Rust library's handle.
#include "text/chat_template.h"

#include <nlohmann/json.hpp>

#include "text/hf_handles.h"

namespace quire {

struct ChatTemplate::Impl {
  TemplateHandle handle;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::compile(std::string_view source) {
  quire_hf_template* raw = nullptr;
  HfBytes error;
  const int code = quire_hf_template_new(source.data(), source.size(), &raw, error.out());
  if (code == QUIRE_HF_INTERNAL) return hf_error(code, error);
  if (code != QUIRE_HF_OK) return invalid_argument("the chat template cannot be used: " + error.str());
  auto impl = std::make_unique<Impl>();
  impl->handle.reset(raw);
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(impl)));
}

Result<std::string> ChatTemplate::render(const nlohmann::ordered_json& context) const {
  using Json = nlohmann::ordered_json;
  const std::string text = context.dump(-1, ' ', false, Json::error_handler_t::replace);
  HfBytes out, error;
  const int code = quire_hf_template_render(impl_->handle.get(), text.data(), text.size(), out.out(), error.out());
  if (code == QUIRE_HF_OK) return out.str();
  if (code == QUIRE_HF_RAISED) return invalid_argument(error.str(), "messages");
  if (code == QUIRE_HF_INTERNAL) return hf_error(code, error);
  return invalid_argument("the chat template cannot render these messages: " + error.str(), "messages");
}

}  // namespace quire
