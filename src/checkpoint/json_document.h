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

/// Reads and parses a file of at most 64 MiB. Pointer files, web pages and empty files get their hint.
Result<nlohmann::json> read_json_object(const std::filesystem::path& path);

}  // namespace quire
