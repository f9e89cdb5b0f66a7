// The version that --version, collect-env and bench results print.
#pragma once

#include <string_view>

namespace quire::cli {

/// As in the project's CMakeLists.txt.
constexpr std::string_view version() { return "0.1.0"; }

}  // namespace quire::cli
