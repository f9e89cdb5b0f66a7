// Conversations to token ids with the model's chat template.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/async_llm_backend.h"
#include "text/chat_messages.h"
#include "text/chat_prompt.h"

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

Result<Json> template_context(const Conversation& conversation, const TextAssets& text) {
  QUIRE_ASSIGN_OR_RETURN(Json messages,
                         normalize_messages(conversation.messages, content_format_of(text.chat_template_source)));
  Json context = {{"messages", std::move(messages)},
                  {"add_generation_prompt", conversation.add_generation_prompt},
                  {"bos_token", text.bos_token},
                  {"eos_token", text.eos_token},
                  {"pad_token", text.pad_token},
                  {"unk_token", text.unk_token},
                  {"tools", nullptr}};
  for (const auto& [name, value] : conversation.template_kwargs.items()) {
    if (context.contains(name)) {
      return invalid_argument(fmt::format("chat_template_kwargs must not set {}.", name), "chat_template_kwargs");
    }
    context[name] = value;
  }
  return context;
}

Error no_template(const TextAssets& text) {
  if (!text.chat_template_problem.empty()) return invalid_argument(text.chat_template_problem, "messages");
  return invalid_argument(
      "This model has no chat template: start the server with --chat-template FILE, or use /v1/completions.",
      "messages");
}

}  // namespace

Result<std::vector<int32_t>> AsyncLlmBackend::encode_chat(const Conversation& conversation) const {
  const TextAssets& text = llm_.text();
  if (!text.chat_template) return no_template(text);
  QUIRE_RETURN_IF_ERROR(text_limit_.judge(content_bytes(conversation), "messages"));
  QUIRE_ASSIGN_OR_RETURN(Json context, template_context(conversation, text));
  ChatPromptOptions options;
  options.continue_final_message = conversation.continue_final_message;
  QUIRE_ASSIGN_OR_RETURN(ChatPrompt prompt,
                         quire::encode_chat(*text.tokenizer, *text.chat_template, std::move(context), options));
  if (conversation.add_special_tokens) return text.tokenizer->encode(prompt.text, true);
  return std::move(prompt.token_ids);
}

}  // namespace quire
