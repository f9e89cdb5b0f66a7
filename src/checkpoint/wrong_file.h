// Recognises what often lies in place of a checkpoint's file.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace quire {

/// For an empty file, a Git LFS pointer, a web page, or a zip or pickle archive: the rest of a sentence that begins
/// with the file's path, and says what to do. Nothing for anything else.
std::optional<std::string> wrong_file_hint(std::span<const std::byte> bytes);

}  // namespace quire
