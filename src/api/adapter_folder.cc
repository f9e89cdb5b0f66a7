#include "api/adapter_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "checkpoint/printable.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxListed = 10'000;
constexpr size_t kMaxFileNameBytes = 255;

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxFileNameBytes && name.front() != '.' && !has_control_characters(name) &&
         name.find_first_of("/\\") == std::string::npos && name.find("..") == std::string::npos;
}

/// Whether `path`, links resolved, lies in `root`, which has none.
bool lies_in(const fs::path& path, const fs::path& root) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return false;
  return std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first == root.end();
}

/// The adapter of that name in `root`, whose links are resolved.
std::optional<fs::path> find_in(const fs::path& root, const std::string& name) {
  if (!is_plain_name(name)) return std::nullopt;
  std::error_code error;
  const fs::path folder = root / name;
  if (!fs::exists(folder / "adapter_config.json", error) || !lies_in(folder, root)) return std::nullopt;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->is_symlink(error) && !lies_in(entry->path(), root)) return std::nullopt;
  }
  if (error) return std::nullopt;
  return folder;
}

}  // namespace

Status AdapterFolder::judge() const {
  if (root_.empty()) return {};
  std::error_code error;
  const fs::directory_iterator entries(root_, error);
  if (!error) return {};
  return invalid_argument(
      fmt::format("--lora-dir {}: it is not a folder that can be read ({}).", root_.string(), error.message()),
      "lora_dir");
}

std::optional<fs::path> AdapterFolder::find(const std::string& name) const {
  if (root_.empty()) return std::nullopt;
  std::error_code error;
  const fs::path root = fs::canonical(root_, error);
  return error ? std::nullopt : find_in(root, name);
}

std::map<std::string, fs::path> AdapterFolder::list() const {
  std::map<std::string, fs::path> found;
  if (root_.empty()) return found;
  std::error_code error;
  const fs::path root = fs::canonical(root_, error);
  for (fs::directory_iterator entry(root, error), end; !error && entry != end && found.size() < kMaxListed;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (auto path = find_in(root, name)) found.emplace(name, std::move(*path));
  }
  return found;
}

}  // namespace quire
