// What the machine gives this process to compute with: CPUs, caches, memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace quire {

/// The CPUs that this process may run on, ascending (the affinity of its first thread, so that pinned threads see all);
/// never empty.
std::vector<int> allowed_cpus();

/// Cache of one core (L3: of the cores that share it) in bytes; typical sizes where the system does not say.
struct CacheSizes {
  size_t l1_data;
  size_t l2;
  size_t l3;
};
CacheSizes cache_sizes();

/// As the CPU names itself ("AMD EPYC ..."); "unknown CPU" where the system does not say.
std::string cpu_model_name();

/// Bytes that this process can still take: what the machine has available, cut to what its cgroup has left.
int64_t available_memory();

}  // namespace quire
