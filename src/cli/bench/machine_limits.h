// Measurements of memory and arithmetic, each on a number of pinned threads.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace quire::cli {

struct MachineLimit {
  std::string name;  ///< "read 4096 MiB, huge pages"
  std::string unit;  ///< "GB/s", "GFLOP/s", "GOP/s"
  int threads = 1;
  double median = 0, highest = 0;
};

struct MachineOptions {
  std::vector<int> cpus;    ///< one thread is pinned to each
  size_t memory_bytes = 0;  ///< of the largest buffer
  int repetitions = 5;
};

/// Measures on one thread and on all; calls `report` for each figure as it comes.
void measure_machine(const MachineOptions& options, const std::function<void(const MachineLimit&)>& report);

}  // namespace quire::cli
