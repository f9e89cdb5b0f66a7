// Chat templates, rendered as Hugging Face's apply_chat_template does.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

/// A compiled Jinja template with transformers' settings (trim_blocks, lstrip_blocks, loop controls, generation tags,
/// tojson, strftime_now, raise_exception) and limits on size, depth and work. Thread-safe.
class ChatTemplate {
 public:
  ~ChatTemplate();
  /// Refuses source that does not parse, with the template engine's message and line.
  static Result<std::unique_ptr<ChatTemplate>> compile(std::string_view source);

  /// `context` holds messages, add_generation_prompt, bos_token, eos_token, tools (null) and the request's
  /// chat_template_kwargs. What the template raises with raise_exception comes back as an invalid-argument Error
  /// carrying its message.
  Result<std::string> render(const nlohmann::ordered_json& context) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
