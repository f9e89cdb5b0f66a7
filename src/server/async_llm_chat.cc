// Conversations to token ids with the model's chat template.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "server/async_llm_backend.h"
#include "server/protocol/chat_text.h"

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

Json template_context(const ChatPrompt& prompt, const TextAssets& text) {
  Json context = {{"messages", join_text_parts(prompt.messages)},
                  {"add_generation_prompt", prompt.add_generation_prompt},
                  {"bos_token", text.bos_token},
                  {"eos_token", text.eos_token},
                  {"pad_token", text.pad_token},
                  {"unk_token", text.unk_token},
                  {"tools", nullptr}};
  for (const auto& [name, value] : prompt.template_kwargs.items()) context[name] = value;
  return context;
}

}  // namespace

Result<std::vector<int32_t>> AsyncLlmBackend::encode_chat(const ChatPrompt& prompt) const {
  const TextAssets& text = llm_.text();
  if (!text.chat_template) {
    return invalid_argument(
        "This model has no chat template: start the server with --chat-template FILE, or use /v1/completions.", "messages");
  }
  QUIRE_ASSIGN_OR_RETURN(std::string rendered, text.chat_template->render(template_context(prompt, text)));
  if (prompt.continue_final_message) {
    QUIRE_ASSIGN_OR_RETURN(rendered, cut_after_final_message(std::move(rendered), prompt.messages));
  }
  return text.tokenizer->encode(rendered, prompt.add_special_tokens);
}

}  // namespace quire
