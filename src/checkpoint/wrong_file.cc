#include "checkpoint/wrong_file.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace quire {

std::optional<std::string> wrong_file_hint(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "is empty; download it again";
  std::string head(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 256));
  // A safetensors file begins with its header's length, whose bytes may be those of any other format.
  if (head.size() > 8 && head[8] == '{' && head.compare(4, 4, std::string(4, '\0')) == 0) return std::nullopt;
  if (head.starts_with("version https://git-lfs")) {
    return "is a Git LFS pointer, not the file itself; run `git lfs pull` in the model's folder or download the file";
  }
  if (head.starts_with("PK\x03\x04")) return "is a zip archive (a PyTorch checkpoint?); convert it to safetensors";
  if (head.starts_with("\x80\x02") || head.starts_with("\x80\x04")) {
    return "is a Python pickle, which is not read; convert it to safetensors";
  }
  const size_t start = head.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (start == std::string::npos) return std::nullopt;
  head.erase(0, start);
  std::ranges::transform(head, head.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (head.starts_with("<!doctype") || head.starts_with("<html") || head.starts_with("<?xml")) {
    return "is a web page, not a model's file; the download was refused or redirected, get it again";
  }
  return std::nullopt;
}

}  // namespace quire
