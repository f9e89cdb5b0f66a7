// File names and formats: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{memory,cpusets}.rst,
// scheduler/sched-bwc.rst.
#include "base/cgroup_limits.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

namespace quire {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> read_number(const fs::path& file) {
  std::ifstream stream(file);
  int64_t number = 0;
  if (stream >> number) return number;
  return std::nullopt;
}

/// The number after `key` in a file of "key number" lines; 0 if missing.
int64_t read_keyed(const fs::path& file, const std::string& key) {
  std::ifstream stream(file);
  int64_t number = 0;
  for (std::string name; stream >> name >> number;) {
    if (name == key) return number;
  }
  return 0;
}

/// `path` and what encloses it up to `root`; only `root` when the path is not there, as in a container that sees its
/// own group as the root.
std::vector<fs::path> enclosing_groups(const fs::path& root, const std::string& path) {
  std::vector<fs::path> groups;
  std::error_code error;
  fs::path relative = fs::path(path).relative_path().lexically_normal();
  if (path.find("..") != std::string::npos || !fs::is_directory(root / relative, error)) relative.clear();
  for (; !relative.empty() && relative != "."; relative = relative.parent_path()) groups.push_back(root / relative);
  groups.push_back(root);
  return groups;
}

/// The groups of one controller (version 1), or of the unified hierarchy when `controller` is empty.
std::vector<fs::path> groups_of(const CgroupPaths& paths, const std::string& controller) {
  std::ifstream file(paths.membership);
  for (std::string line; std::getline(file, line);) {  // "id:controllers:path"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controller.empty()) {
      if (controllers.empty()) return enclosing_groups(paths.root, path);
      continue;
    }
    std::istringstream list(controllers);
    for (std::string name; std::getline(list, name, ',');) {
      if (name != controller) continue;
      std::error_code error;
      const fs::path joint = fs::path(paths.root) / controllers;
      return enclosing_groups(fs::is_directory(joint, error) ? joint : fs::path(paths.root) / controller, path);
    }
  }
  return {};
}

template <typename Value, typename Read>
std::optional<Value> strictest(const std::vector<fs::path>& groups, Read read) {
  std::optional<Value> least;
  for (const fs::path& group : groups) {
    const std::optional<Value> value = read(group);
    if (value && (!least || *value < *least)) least = value;
  }
  return least;
}

std::optional<double> quota(int64_t microseconds, int64_t period) {
  if (microseconds <= 0 || period <= 0) return std::nullopt;
  return static_cast<double>(microseconds) / static_cast<double>(period);
}

std::optional<double> quota_v2(const fs::path& group) {  // "max 100000" or "150000 100000"
  std::ifstream stream(group / "cpu.max");
  int64_t microseconds = 0;
  int64_t period = 0;
  if (stream >> microseconds >> period) return quota(microseconds, period);
  return std::nullopt;
}

std::optional<double> quota_v1(const fs::path& group) {  // -1: none
  return quota(read_number(group / "cpu.cfs_quota_us").value_or(-1),
               read_number(group / "cpu.cfs_period_us").value_or(0));
}

std::optional<int64_t> memory_left(const fs::path& group, const char* limit_file, const char* usage_file,
                                   const char* file_pages) {
  constexpr int64_t kNoLimit = int64_t{1} << 60;  // version 1 states the largest number when there is none
  const std::optional<int64_t> limit = read_number(group / limit_file);
  if (!limit || *limit >= kNoLimit) return std::nullopt;
  const int64_t used = read_number(group / usage_file).value_or(0) - read_keyed(group / "memory.stat", file_pages);
  return std::max<int64_t>(*limit - std::max<int64_t>(used, 0), 0);
}

}  // namespace

std::optional<double> cgroup_cpu_quota(const CgroupPaths& paths) {
  if (const auto found = strictest<double>(groups_of(paths, ""), quota_v2)) return found;
  return strictest<double>(groups_of(paths, "cpu"), quota_v1);
}

std::optional<int64_t> cgroup_memory_left(const CgroupPaths& paths) {
  const auto left_v2 = [](const fs::path& group) {
    return memory_left(group, "memory.max", "memory.current", "inactive_file");
  };
  const auto left_v1 = [](const fs::path& group) {
    return memory_left(group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
  };
  if (const auto found = strictest<int64_t>(groups_of(paths, ""), left_v2)) return found;
  return strictest<int64_t>(groups_of(paths, "memory"), left_v1);
}

}  // namespace quire
