// What a checkpoint says about text: tokenizer, chat template, special tokens.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire {

/// The text side of a model. The chat template may be absent: chat requests are then a 400 that says how to give one.
struct TextAssets {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;
  std::string chat_template_source;
  std::string chat_template_problem;  ///< why chat_template is null: a sentence for the 400; empty where it is not null
  std::string bos_token, eos_token, pad_token, unk_token;  ///< empty where there is none
  std::optional<int32_t> bos_token_id, eos_token_id;
};

/// From a Hugging Face folder (tokenizer.json, tokenizer_config.json, special_tokens_map.json, chat_template.jinja /
/// chat_template.json, named templates) or from a GGUF file's metadata. `chat_template_override` is a template's path
/// or its text (--chat-template); empty for none.
Result<TextAssets> load_text_assets(const std::filesystem::path& model, const std::string& chat_template_override = {});

}  // namespace quire
