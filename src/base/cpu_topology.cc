#include "base/cpu_topology.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

#include "base/cgroup_limits.h"

namespace quire {
namespace {

size_t cache_size(int name, size_t typical) {
  const long size = sysconf(name);
  return size > 0 ? static_cast<size_t>(size) : typical;
}

/// What follows `key` on its line of a "key: value" file; empty if there is no such line.
std::string value_of(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

/// What `ulimit -v` leaves; empty without such a limit.
std::optional<int64_t> address_space_left() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  int64_t used_pages = 0;
  std::ifstream("/proc/self/statm") >> used_pages;
  return static_cast<int64_t>(limit.rlim_cur) - used_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

std::vector<int> allowed_cpus() {
  // The kernel may have room for more CPUs than cpu_set_t: enlarge the mask until it fits.
  for (int capacity = CPU_SETSIZE; capacity <= 1 << 20; capacity *= 2) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<size_t>(capacity));
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    std::vector<int> cpus;
    if (sched_getaffinity(getpid(), bytes, set) == 0) {
      for (int cpu = 0; cpu < capacity; ++cpu) {
        if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) cpus.push_back(cpu);
      }
    }
    CPU_FREE(set);
    if (!cpus.empty()) return cpus;
  }
  return {0};
}

CacheSizes cache_sizes() {
  return {cache_size(_SC_LEVEL1_DCACHE_SIZE, size_t{32} << 10), cache_size(_SC_LEVEL2_CACHE_SIZE, size_t{512} << 10),
          cache_size(_SC_LEVEL3_CACHE_SIZE, size_t{8} << 20)};
}

std::string cpu_model_name() {
  std::string name = value_of("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown CPU" : name;
}

int64_t available_memory() {
  const std::string kilobytes = value_of("/proc/meminfo", "MemAvailable");
  int64_t available = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  if (!kilobytes.empty()) available = std::min<int64_t>(available, std::strtoll(kilobytes.c_str(), nullptr, 10) * 1024);
  if (const std::optional<int64_t> left = cgroup_memory_left()) available = std::min(available, *left);
  if (const std::optional<int64_t> left = address_space_left()) available = std::min(available, *left);
  return std::max<int64_t>(available, 0);
}

}  // namespace quire
