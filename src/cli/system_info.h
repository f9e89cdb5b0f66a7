// What this machine offers, as text for reports: CPU, caches, memory, pages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quire::cli {

/// "0-3,8" for {0, 1, 2, 3, 8}.
std::string format_cpu_list(const std::vector<int>& cpus);

struct CpuCache {
  int level = 0;
  std::string type;  ///< "Data", "Instruction", "Unified"
  std::string size;  ///< as the kernel writes it: "2048K"
};
std::vector<CpuCache> cpu_caches();

/// A field of /proc/meminfo in bytes ("MemAvailable"), or of /proc/cpuinfo as text ("model name").
std::optional<int64_t> meminfo_bytes(const std::string& field);
std::string cpuinfo_field(const std::string& field);

/// A file's first line without its end; "" when it cannot be read.
std::string first_line(const std::string& path);

}  // namespace quire::cli
