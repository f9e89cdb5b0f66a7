// What text_assets reads: small text files, and templates wherever they are kept.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/result.h"

namespace quire {

struct TextAssets;

/// The file's text, or nothing if there is no such file. Larger than `limit` bytes, or no regular file: refused.
Result<std::optional<std::string>> read_text_if_exists(const std::filesystem::path& path, size_t limit);
/// The same for a file that holds JSON: what often lies in its place (a Git LFS pointer, a web page) is refused by
/// name.
Result<std::optional<std::string>> read_json_if_exists(const std::filesystem::path& path, size_t limit);

/// The template of tokenizer_config.json's or chat_template.json's "chat_template": a text, or a list of named ones of
/// which "default" is taken. Empty where there is none.
std::string template_of(const nlohmann::ordered_json& config);

/// Sets the assets' template from the user's choice (a path or the template's text) or else from `own`, the
/// checkpoint's.
Status set_chat_template(TextAssets& assets, const std::string& chosen, std::string own);

/// Fills the special tokens' ids from their texts.
void set_special_ids(TextAssets& assets);

}  // namespace quire
