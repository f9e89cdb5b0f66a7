#include "cli/system_info.h"

#include <fmt/format.h>

#include <fstream>

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

}  // namespace

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
