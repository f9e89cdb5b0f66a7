// What tells one build of the program from another: ranks that compute together must be the same one.
#pragma once

#include <string>

namespace quire {

/// The linker's build id of the running program in hexadecimal; where it was linked without one, its size and the time
/// of its last change.
std::string build_identity();

}  // namespace quire
