#include "engine/ranks/checkpoint_fingerprint.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/mapped_file.h"
#include "models/model_plugin.h"

namespace quire {
namespace {

constexpr size_t kBytesHashed = size_t{1} << 20;
constexpr size_t kLongestHeader = size_t{100} << 20;  // that safetensors allows

/// How much of a file says what is in it.
size_t header_bytes(const std::filesystem::path& path) {
  uint64_t length = 0;
  if (path.extension() != ".safetensors") return kBytesHashed;
  const auto begin = MappedFile::copy(path, sizeof(length));
  if (!begin.ok() || begin->size() < sizeof(length)) return kBytesHashed;
  std::memcpy(&length, begin->bytes().data(), sizeof(length));  // little-endian, as this machine
  return sizeof(length) + static_cast<size_t>(std::min<uint64_t>(length, kLongestHeader));
}

std::string fingerprint_of_file(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(path, ignored);
  const auto time = std::filesystem::last_write_time(path, ignored).time_since_epoch().count();
  const auto head = MappedFile::copy(path, header_bytes(path));
  const uint64_t hash = head.ok() ? XXH3_64bits(head->bytes().data(), head->size()) : 0;
  return fmt::format("{} {} {} {:016x}\n", path.filename().string(), size, time, hash);
}

}  // namespace

std::string fingerprint_of(const Checkpoint& checkpoint, std::span<const std::string> model_plugins) {
  std::vector<std::filesystem::path> paths = checkpoint.weights->files();
  if (!checkpoint.is_gguf) paths.push_back(checkpoint.path / "config.json");
  for (const std::string& plugin : model_plugins) paths.push_back(plugin_library(plugin));
  std::ranges::sort(paths);
  std::string fingerprint;
  for (const std::filesystem::path& path : paths) fingerprint += fingerprint_of_file(path);
  return fingerprint;
}

}  // namespace quire
