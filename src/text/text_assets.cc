// Finds the tokenizer and the chat template in a Hugging Face folder or a GGUF file.
#include "text/text_assets.h"

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/gguf_file.h"
#include "text/gguf_tokenizer_json.h"
#include "text/gguf_vocabulary.h"
#include "text/text_files.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTokenizerJson = 256u << 20;
constexpr size_t kMaxConfig = 64u << 20;
constexpr std::array kSpecialNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};

/// An absent file is an empty object.
Result<Json> read_config(const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(const auto text, read_text_if_exists(path, kMaxConfig));
  if (!text) return Json::object();
  constexpr int kMaxDepth = 64;
  bool too_deep = false;
  const auto check = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return depth <= kMaxDepth;
  };
  Json config = Json::parse(*text, check, false);
  if (too_deep || !config.is_object()) return invalid_argument(path.string() + " is not a JSON object of sane depth");
  return config;
}

/// A token in a config: its text, or an object with its "content".
std::string token_text(const Json& config, const char* name) {
  const auto value = config.find(name);
  if (value == config.end()) return {};
  if (value->is_string()) return value->get<std::string>();
  if (value->is_object() && value->contains("content") && (*value)["content"].is_string()) {
    return (*value)["content"].get<std::string>();
  }
  return {};
}

/// Named special tokens by their text, with the object that describes them, or null. tokenizer_config.json wins over
/// the older special_tokens_map.json.
std::map<std::string, Json> named_tokens(const Json& config, const Json& special_tokens_map, TextAssets& assets) {
  std::map<std::string, Json> named;
  const std::map<std::string_view, std::string*> fields = {{"bos_token", &assets.bos_token},
                                                           {"eos_token", &assets.eos_token},
                                                           {"pad_token", &assets.pad_token},
                                                           {"unk_token", &assets.unk_token}};
  for (const char* name : kSpecialNames) {
    const Json& source = config.contains(name) ? config : special_tokens_map;
    const std::string text = token_text(source, name);
    if (text.empty()) continue;
    const auto field = fields.find(name);
    if (field != fields.end()) *field->second = text;
    named[text] = source[name].is_object() ? source[name] : Json();
  }
  return named;
}

/// As transformers does: the tokens that the config names are special, whether the tokenizer.json says so or not.
Result<std::string> with_named_tokens(const std::string& tokenizer_json, const std::map<std::string, Json>& named) {
  // Not ordered: a vocabulary in an ordered object would take quadratic time.
  nlohmann::json tokenizer = nlohmann::json::parse(tokenizer_json, nullptr, false);
  if (!tokenizer.is_object()) return invalid_argument("tokenizer.json is not a JSON object");
  nlohmann::json& added = tokenizer["added_tokens"];
  if (!added.is_array()) added = nlohmann::json::array();
  for (const auto& [text, description] : named) {
    const auto flag = [&](const char* name) {
      return description.is_object() && description.contains(name) && description[name] == true;
    };
    nlohmann::json* token = nullptr;
    for (nlohmann::json& existing : added) {
      if (existing.is_object() && existing.value("content", "") == text) token = &existing;
    }
    if (token == nullptr) {
      added.push_back(nlohmann::json{{"id", 0}, {"content", text}});
      token = &added.back();
      for (const char* name : {"single_word", "lstrip", "rstrip", "normalized"}) (*token)[name] = flag(name);
    }
    (*token)["special"] = true;
  }
  return tokenizer.dump();
}

Status load_folder_tokenizer(const std::filesystem::path& folder, const std::map<std::string, Json>& named,
                             TextAssets& assets) {
  const std::filesystem::path path = folder / "tokenizer.json";
  QUIRE_ASSIGN_OR_RETURN(auto text, read_text_if_exists(path, kMaxTokenizerJson));
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
  auto tokenizer = Tokenizer::from_json(*text);
  if (!tokenizer.ok()) return in_file(tokenizer.error());
  assets.tokenizer = std::move(tokenizer).value();
  for (const auto& [token, description] : named) {
    const auto id = assets.tokenizer->token_to_id(token);
    if (id && assets.tokenizer->is_special(*id)) continue;
    QUIRE_ASSIGN_OR_RETURN(const std::string completed, with_named_tokens(*text, named));
    QUIRE_ASSIGN_OR_RETURN(assets.tokenizer, Tokenizer::from_json(completed));
    break;
  }
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
  const auto named = named_tokens(config, special_tokens_map, assets);
  QUIRE_RETURN_IF_ERROR(load_folder_tokenizer(folder, named, assets));
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
