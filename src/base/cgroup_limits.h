// The limits that a container or service manager has set for this process by control groups, version 1 or 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace quire {

/// Where to read; other places are for tests.
struct CgroupPaths {
  std::string membership = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

/// CPUs' worth of time per period that the strictest enclosing group allows ("docker --cpus 1.5": 1.5); empty without a
/// quota.
std::optional<double> cgroup_cpu_quota(const CgroupPaths& paths = {});

/// Bytes left until the strictest enclosing group's memory limit, its reclaimable file pages counted as free; empty
/// without a limit.
std::optional<int64_t> cgroup_memory_left(const CgroupPaths& paths = {});

}  // namespace quire
