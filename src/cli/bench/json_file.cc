#include "cli/bench/json_file.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace quire::cli {

void write_json_file(const std::string& path, const nlohmann::ordered_json& json) {
  if (path.empty()) return;
  std::ofstream file(path);
  file << json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
  file.close();
  if (!file) throw StartupError(fmt::format("The result could not be written to {}", path));
}

}  // namespace quire::cli
