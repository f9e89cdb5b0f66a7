#include "cli/system_info.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "cli/flag_values.h"

namespace quire::cli {
namespace {

/// The value behind "field :" in a file of such lines.
std::string field_of(const std::string& path, const std::string& field) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.rfind(field, 0) != 0) continue;
    if (line.find_first_not_of(" \t", field.size()) != colon) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

/// This process's folders in the cgroup v2 tree, the innermost first: a limit of any of them holds.
std::vector<std::string> cgroup_folders() {
  std::ifstream file("/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::", 0) == 0) path = line.substr(3);
  }
  std::vector<std::string> folders;
  while (path.size() > 1) {
    folders.push_back("/sys/fs/cgroup" + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back("/sys/fs/cgroup");
  return folders;
}

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  for (int size = 1024; size <= 1 << 20; size *= 2) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<size_t>(size));
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(size));
    const bool ok = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; ok && cpu < size; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (ok) break;
  }
  return cpus;
}

std::string format_cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

std::vector<CpuCache> cpu_caches() {
  std::vector<CpuCache> caches;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const auto level = parse_whole_number(first_line(folder + "level"), 1, 8);
    if (!level.ok()) break;
    caches.push_back({static_cast<int>(*level), first_line(folder + "type"), first_line(folder + "size")});
  }
  return caches;
}

std::optional<double> cgroup_cpu_quota() {
  std::optional<double> least;
  const auto consider = [&](double quota, double period) {
    if (quota > 0 && period > 0) least = std::min(least.value_or(quota / period), quota / period);
  };
  for (const std::string& folder : cgroup_folders()) {
    std::istringstream line(first_line(folder + "/cpu.max"));
    double quota = 0;
    double period = 0;
    if (line >> quota >> period) consider(quota, period);
  }
  const auto quota = parse_whole_number(first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), 1);
  const auto period = parse_whole_number(first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us"), 1);
  if (quota.ok() && period.ok()) consider(static_cast<double>(*quota), static_cast<double>(*period));
  return least;
}

std::optional<int64_t> cgroup_memory_limit() {
  constexpr int64_t kNoLimit = int64_t{1} << 60;  // version 1 writes a huge number for none
  std::optional<int64_t> least;
  std::vector<std::string> files = {"/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  for (const std::string& folder : cgroup_folders()) files.push_back(folder + "/memory.max");
  for (const std::string& file : files) {
    const auto limit = parse_whole_number(first_line(file), 1, kNoLimit);
    if (limit.ok()) least = std::min(least.value_or(*limit), *limit);
  }
  return least;
}

std::optional<int64_t> meminfo_bytes(const std::string& field) {
  const std::string text = field_of("/proc/meminfo", field);
  const auto kilobytes = parse_whole_number(text.substr(0, text.find(' ')), 0, int64_t{1} << 50);
  if (!kilobytes.ok()) return std::nullopt;
  return *kilobytes * 1024;
}

std::string cpuinfo_field(const std::string& field) { return field_of("/proc/cpuinfo", field); }

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace quire::cli
