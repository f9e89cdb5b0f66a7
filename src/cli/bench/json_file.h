// Results as a JSON file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace quire::cli {

/// Writes indented JSON; does nothing for an empty path. Throws StartupError when the file cannot be written.
void write_json_file(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace quire::cli
