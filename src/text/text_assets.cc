// Finds the tokenizer and the chat template in a Hugging Face folder or a GGUF file.
#include "text/text_assets.h"

#include <nlohmann/json.hpp>

#include "checkpoint/gguf_file.h"
#include "text/config_tokens.h"
#include "text/gguf_tokenizer_json.h"
#include "text/gguf_vocabulary.h"
#include "text/text_files.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTokenizerJson = 256u << 20;
constexpr size_t kMaxConfig = 64u << 20;

/// An absent file is an empty object.
Result<Json> read_config(const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(const auto text, read_json_if_exists(path, kMaxConfig));
  if (!text) return Json::object();
  constexpr int kMaxDepth = 64;
  bool too_deep = false;
  const auto check = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return depth <= kMaxDepth;
  };
  Json config = Json::parse(*text, check, false);
  if (too_deep || !config.is_object()) {
    return invalid_argument(path.string() + " is not a JSON object, or one nested more than 64 deep");
  }
  return config;
}

Status load_folder_tokenizer(const std::filesystem::path& folder, const std::vector<ConfigToken>& tokens,
                             TextAssets& assets) {
  const std::filesystem::path path = folder / "tokenizer.json";
  QUIRE_ASSIGN_OR_RETURN(auto text, read_json_if_exists(path, kMaxTokenizerJson));
  if (!text) {
    return not_found(folder.string() +
                     " has no tokenizer.json; give one with --tokenizer, or make one with transformers' " +
                     "AutoTokenizer and save_pretrained");
  }
  const auto in_file = [&](Error error) {
    constexpr std::string_view kName = "tokenizer.json: ";  // the path says it already
    if (error.message.starts_with(kName)) error.message.erase(0, kName.size());
    error.message = path.string() + ": " + error.message;
    return error;
  };
  QUIRE_ASSIGN_OR_RETURN(const std::string completed, with_config_tokens(std::move(*text), tokens));
  auto tokenizer = Tokenizer::from_json(completed);
  if (!tokenizer.ok()) return in_file(tokenizer.error());
  assets.tokenizer = std::move(tokenizer).value();
  return {};
}

/// chat_template.jinja, then chat_template.json, then tokenizer_config.json: the newest way of keeping it first.
Result<std::string> folder_template(const std::filesystem::path& folder, const Json& tokenizer_config) {
  QUIRE_ASSIGN_OR_RETURN(auto jinja, read_text_if_exists(folder / "chat_template.jinja", kMaxConfig));
  if (jinja) return *jinja;
  QUIRE_ASSIGN_OR_RETURN(const Json separate, read_config(folder / "chat_template.json"));
  const std::string source = template_of(separate);
  return source.empty() ? template_of(tokenizer_config) : source;
}

Result<TextAssets> load_folder(const std::filesystem::path& folder, const std::string& chosen_template) {
  TextAssets assets;
  QUIRE_ASSIGN_OR_RETURN(const Json config, read_config(folder / "tokenizer_config.json"));
  QUIRE_ASSIGN_OR_RETURN(const Json special_tokens_map, read_config(folder / "special_tokens_map.json"));
  QUIRE_ASSIGN_OR_RETURN(ConfigTokens named, read_config_tokens(config, special_tokens_map, folder.string()));
  QUIRE_RETURN_IF_ERROR(load_folder_tokenizer(folder, named.tokens, assets));
  assets.bos_token = std::move(named.bos_token);
  assets.eos_token = std::move(named.eos_token);
  assets.pad_token = std::move(named.pad_token);
  assets.unk_token = std::move(named.unk_token);
  set_special_ids(assets);
  QUIRE_ASSIGN_OR_RETURN(std::string source, folder_template(folder, config));
  QUIRE_RETURN_IF_ERROR(set_chat_template(assets, chosen_template, std::move(source)));
  return assets;
}

Result<TextAssets> load_gguf(const std::filesystem::path& path, const std::string& chosen_template) {
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::open(path));
  QUIRE_ASSIGN_OR_RETURN(GgufVocabulary vocabulary, read_gguf_vocabulary(file));
  QUIRE_ASSIGN_OR_RETURN(const std::string json, make_tokenizer_json(vocabulary, path.string()));
  TextAssets assets;
  QUIRE_ASSIGN_OR_RETURN(assets.tokenizer, Tokenizer::from_json(json));
  if (assets.tokenizer->vocab_size() > static_cast<int64_t>(vocabulary.tokens.size())) {
    return invalid_argument(path.string() + ": its special tokens are not all in its vocabulary");
  }
  const auto text_of = [&](std::optional<int32_t> id) {
    return id ? vocabulary.tokens[static_cast<size_t>(*id)] : std::string();
  };
  assets.bos_token = text_of(vocabulary.bos_id);
  assets.eos_token = text_of(vocabulary.eos_id);
  assets.pad_token = text_of(vocabulary.pad_id);
  assets.unk_token = text_of(vocabulary.unk_id);
  assets.bos_token_id = vocabulary.bos_id;
  assets.eos_token_id = vocabulary.eos_id;
  QUIRE_RETURN_IF_ERROR(set_chat_template(assets, chosen_template, std::move(vocabulary.chat_template)));
  return assets;
}

}  // namespace

Result<TextAssets> load_text_assets(const std::filesystem::path& model, const std::string& chat_template_override) {
  std::error_code failed;
  if (std::filesystem::is_directory(model, failed)) return load_folder(model, chat_template_override);
  if (GgufFile::has_magic(model)) return load_gguf(model, chat_template_override);
  return invalid_argument(model.string() + " is neither a Hugging Face folder nor a GGUF file");
}

}  // namespace quire
