#include "text/config_tokens.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <sstream>
#include <string_view>

namespace quire {
namespace {

using SortedJson = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;
using Source = ConfigToken::Source;

constexpr std::array kSpecialNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};
constexpr std::array kFlags = {"single_word", "lstrip", "rstrip", "normalized", "special"};

bool flag_of(const SortedJson& description, const char* name, bool fallback) {
  const auto found = description.find(name);
  return found != description.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

/// Only the five flags, each with the default that transformers gives it.
SortedJson flags_of(const SortedJson& description) {
  const bool special = flag_of(description, "special", false);
  SortedJson flags = {{"special", special}};
  for (const char* name : {"single_word", "lstrip", "rstrip"}) flags[name] = flag_of(description, name, false);
  flags["normalized"] = flag_of(description, "normalized", !special);
  return flags;
}

class Reader {
 public:
  Reader(const OrderedJson& config, const OrderedJson& map, const std::string& where)
      : config_(config), map_(map), where_(where) {}

  Result<ConfigTokens> read() {
    const auto split = config_.find("split_special_tokens");
    if (split != config_.end() && *split == true) {
      return unsupported(where_ + "/tokenizer_config.json: split_special_tokens is not supported; set it to false");
    }
    QUIRE_RETURN_IF_ERROR(read_decoder());
    QUIRE_RETURN_IF_ERROR(read_named());
    for (const char* name : {"additional_special_tokens", "extra_special_tokens"}) {
      QUIRE_RETURN_IF_ERROR(read_list(name));
    }
    return std::move(out_);
  }

 private:
  /// tokenizer_config.json goes before the older special_tokens_map.json.
  const OrderedJson* find(const char* name) const {
    const OrderedJson& source = config_.contains(name) ? config_ : map_;
    const auto found = source.find(name);
    return found == source.end() || found->is_null() ? nullptr : &*found;
  }

  Error wrong(const std::string& name, const std::string& expected) const {
    const bool of_config = config_.contains(name);
    return invalid_argument(where_ + (of_config ? "/tokenizer_config.json: " : "/special_tokens_map.json: ") + name +
                            " must be " + expected);
  }

  /// A token is its text, or an object with its "content" and flags.
  Result<ConfigToken> read_token(const OrderedJson& value, const std::string& name, Source source) const {
    if (value.is_string()) return ConfigToken{value.get<std::string>(), {}, source};
    const auto content = value.is_object() ? value.find("content") : value.end();
    if (content == value.end() || !content->is_string()) {
      return wrong(name, "a token's text or an object with its content");
    }
    return ConfigToken{content->get<std::string>(), SortedJson(value), source};
  }

  Status read_decoder() {
    const auto found = config_.find("added_tokens_decoder");
    if (found == config_.end() || found->is_null()) return {};
    constexpr const char* kName = "added_tokens_decoder";
    if (!found->is_object()) return wrong(kName, "an object from token ids to tokens");
    std::map<int64_t, ConfigToken> by_id;
    for (const auto& [key, value] : found->items()) {
      int64_t id = -1;
      const auto [end, failed] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (failed != std::errc() || end != key.data() + key.size() || id < 0 || !value.is_object()) {
        return wrong(kName, "an object from token ids to tokens");
      }
      QUIRE_ASSIGN_OR_RETURN(ConfigToken token, read_token(value, kName, Source::kDecoder));
      token.description = flags_of(token.description);
      by_id.insert_or_assign(id, std::move(token));
    }
    for (auto& [id, token] : by_id) add(std::move(token));
    return {};
  }

  Status read_named() {
    const std::map<std::string_view, std::string*> fields = {{"bos_token", &out_.bos_token},
                                                             {"eos_token", &out_.eos_token},
                                                             {"pad_token", &out_.pad_token},
                                                             {"unk_token", &out_.unk_token}};
    for (const char* name : kSpecialNames) {
      const OrderedJson* const value = find(name);
      if (value == nullptr) continue;
      QUIRE_ASSIGN_OR_RETURN(ConfigToken token, read_token(*value, name, Source::kNamed));
      const auto field = fields.find(name);
      if (field != fields.end()) *field->second = token.text;
      add(std::move(token));
    }
    return {};
  }

  /// A list of tokens, or an object with a name for each.
  Status read_list(const char* name) {
    const OrderedJson* const value = find(name);
    if (value == nullptr) return {};
    if (!value->is_array() && !value->is_object()) return wrong(name, "a list of tokens");
    for (const OrderedJson& entry : *value) {
      QUIRE_ASSIGN_OR_RETURN(ConfigToken token, read_token(entry, name, Source::kListed));
      add(std::move(token));
    }
    return {};
  }

  void add(ConfigToken token) {
    if (!token.text.empty()) out_.tokens.push_back(std::move(token));
  }

  const OrderedJson& config_;
  const OrderedJson& map_;
  const std::string& where_;
  ConfigTokens out_;
};

/// The list "added_tokens" alone, which saves reading a vocabulary of megabytes; an empty list where the text does not
/// have one.
SortedJson added_tokens_of(const std::string& tokenizer_json) {
  constexpr std::string_view kKey = "\"added_tokens\"";
  for (size_t at = tokenizer_json.find(kKey); at != std::string::npos; at = tokenizer_json.find(kKey, at + 1)) {
    const size_t colon = tokenizer_json.find_first_not_of(" \t\r\n", at + kKey.size());
    if (colon == std::string::npos || tokenizer_json[colon] != ':') continue;
    const size_t begin = tokenizer_json.find_first_not_of(" \t\r\n", colon + 1);
    if (begin == std::string::npos || tokenizer_json[begin] != '[') continue;
    std::istringstream rest(tokenizer_json.substr(begin));
    try {
      SortedJson list;
      rest >> list;
      return list;
    } catch (const SortedJson::exception&) {
      break;
    }
  }
  return SortedJson::array();
}

/// Adds or changes what `token` asks for; false where the list says it already.
bool apply(SortedJson& added, const ConfigToken& token) {
  const auto found = std::ranges::find_if(added, [&](const SortedJson& entry) {
    const auto content = entry.is_object() ? entry.find("content") : entry.end();
    return content != entry.end() && content->is_string() && content->get_ref<const std::string&>() == token.text;
  });
  SortedJson flags = flags_of(token.description.is_object() ? token.description : SortedJson{{"special", true}});
  if (token.source != Source::kDecoder) flags["special"] = true;
  if (found == added.end()) {
    flags.update({{"id", 0}, {"content", token.text}});  // the library counts on from the vocabulary
    added.push_back(std::move(flags));
    return true;
  }
  if (token.source == Source::kListed) return false;
  bool changed = false;
  for (const char* name : kFlags) {
    if (token.source == Source::kNamed && std::string_view(name) != "special") continue;
    if (found->contains(name) && (*found)[name] == flags[name]) continue;
    (*found)[name] = flags[name];
    changed = true;
  }
  return changed;
}

bool apply_all(SortedJson& added, const std::vector<ConfigToken>& tokens) {
  bool changed = false;
  for (const ConfigToken& token : tokens) changed = apply(added, token) || changed;
  return changed;
}

}  // namespace

Result<ConfigTokens> read_config_tokens(const OrderedJson& tokenizer_config, const OrderedJson& special_tokens_map,
                                        const std::string& where) {
  return Reader(tokenizer_config, special_tokens_map, where).read();
}

Result<std::string> with_config_tokens(std::string tokenizer_json, const std::vector<ConfigToken>& tokens) {
  SortedJson added = added_tokens_of(tokenizer_json);
  if (!apply_all(added, tokens)) return tokenizer_json;
  // Not ordered: a vocabulary in an ordered object would take quadratic time.
  SortedJson tokenizer = SortedJson::parse(tokenizer_json, nullptr, false);
  if (!tokenizer.is_object()) return tokenizer_json;  // the library says what is wrong with it
  SortedJson& own = tokenizer["added_tokens"];
  if (!own.is_array()) own = SortedJson::array();
  apply_all(own, tokens);
  return tokenizer.dump();
}

}  // namespace quire
