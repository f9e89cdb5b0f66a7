// JSON from untrusted files: bounded depth, no duplicate keys, errors that name the file.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

/// Parses `text`, which must be one JSON object. `where` (a path) begins every message.
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& where);

/// The text of a file of at most `most_mebibytes`, read before anything judges it, so that the file may change
/// meanwhile. Pointer files, web pages and empty files get their hint.
Result<std::string> read_json_text(const std::filesystem::path& path, size_t most_mebibytes = 64);

/// Reads and parses such a file.
Result<nlohmann::json> read_json_object(const std::filesystem::path& path);

}  // namespace quire
