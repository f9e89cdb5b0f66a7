#include "text/text_files.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "checkpoint/wrong_file.h"
#include "text/text_assets.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;
constexpr size_t kMaxTemplate = 1u << 20;

bool looks_like_a_template(const std::string& text) {
  return text.find("{{") != std::string::npos || text.find("{%") != std::string::npos ||
         text.find('\n') != std::string::npos;
}

Result<std::string> chosen_source(const std::string& chosen) {
  if (looks_like_a_template(chosen)) return chosen;
  QUIRE_ASSIGN_OR_RETURN(auto text, read_text_if_exists(chosen, kMaxTemplate));
  if (!text) {
    return not_found("--chat-template '" + chosen + "' is neither a file nor a template ({{ ... }} or {% ... %})",
                     "--chat-template");
  }
  return *text;
}

}  // namespace

Result<std::optional<std::string>> read_text_if_exists(const std::filesystem::path& path, size_t limit) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return std::optional<std::string>();
  if (!std::filesystem::is_regular_file(path, failed)) {
    return invalid_argument(path.string() + " is not a regular file");
  }
  const auto size = std::filesystem::file_size(path, failed);
  if (failed || size > limit) {
    return invalid_argument(path.string() + " is larger than " + std::to_string(limit) + " bytes or cannot be read");
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    return invalid_argument(path.string() + " cannot be read");
  }
  return std::optional<std::string>(std::move(text));
}

Result<std::optional<std::string>> read_json_if_exists(const std::filesystem::path& path, size_t limit) {
  QUIRE_ASSIGN_OR_RETURN(auto text, read_text_if_exists(path, limit));
  if (text) {
    const auto hint = wrong_file_hint(std::as_bytes(std::span(text->data(), text->size())));
    if (hint) return invalid_argument(path.string() + " " + *hint);
  }
  return text;
}

std::string template_of(const Json& config) {
  const auto value = config.find("chat_template");
  if (value == config.end()) return {};
  if (value->is_string()) return value->get<std::string>();
  const auto text = [](const Json& entry, const char* key) {
    const auto found = entry.is_object() ? entry.find(key) : entry.end();
    return found != entry.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  if (value->is_object()) return text(*value, "default");
  if (!value->is_array()) return {};
  for (const Json& entry : *value) {
    if (text(entry, "name") == "default") return text(entry, "template");
  }
  return value->size() == 1 ? text(value->front(), "template") : std::string();
}

Status set_chat_template(TextAssets& assets, const std::string& chosen, std::string own) {
  if (!chosen.empty()) {
    QUIRE_ASSIGN_OR_RETURN(assets.chat_template_source, chosen_source(chosen));
    QUIRE_ASSIGN_OR_RETURN(assets.chat_template, ChatTemplate::compile(assets.chat_template_source));
    return {};
  }
  assets.chat_template_source = std::move(own);
  if (assets.chat_template_source.empty()) {
    assets.chat_template_problem =
        "the model has no chat template; give one with --chat-template, or use /v1/completions";
    return {};
  }
  auto compiled = ChatTemplate::compile(assets.chat_template_source);
  if (compiled.ok()) {
    assets.chat_template = std::move(compiled).value();
  } else {
    assets.chat_template_problem =
        compiled.error().message + "; give another with --chat-template, or use /v1/completions";
  }
  return {};
}

void set_special_ids(TextAssets& assets) {
  if (!assets.bos_token.empty()) assets.bos_token_id = assets.tokenizer->token_to_id(assets.bos_token);
  if (!assets.eos_token.empty()) assets.eos_token_id = assets.tokenizer->token_to_id(assets.eos_token);
}

}  // namespace quire
