// `quire bench machine`: the limits that no engine can pass on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/cpu_topology.h"
#include "base/thread_pool.h"
#include "cli/bench/json_file.h"
#include "cli/bench/machine_limits.h"
#include "cli/command.h"
#include "cli/flag_set.h"
#include "cli/system_info.h"
#include "ops/cpu/kernel_table.h"

namespace quire::cli {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

struct Arguments {
  int threads = 0;
  int64_t memory = int64_t{4} << 30;
  int repetitions = 5;
  std::string output_json;
};

/// Not more than a third of what is free: a machine that swaps measures its disk.
int64_t affordable(int64_t wanted) { return std::max(kMiB, std::min(wanted, available_memory() / 3) / kMiB * kMiB); }

int run(const Arguments& arguments) {
  MachineOptions options;
  options.cpus = allowed_cpus();
  const int threads = arguments.threads > 0 ? arguments.threads : default_compute_threads();
  if (threads > static_cast<int>(options.cpus.size())) {
    throw FlagError(
        fmt::format("--threads {} is more than the {} CPUs that this process may use.", threads, options.cpus.size()));
  }
  options.cpus.resize(static_cast<size_t>(threads));
  options.memory_bytes = static_cast<size_t>(affordable(arguments.memory));
  options.repetitions = arguments.repetitions;
  std::cout << fmt::format("{}\nISA {}, CPUs {}, medians of {}\n", cpuinfo_field("model name"),
                           ops::cpu::kernels().name, format_cpu_list(options.cpus), options.repetitions);
  for (const CpuCache& cache : cpu_caches()) {
    if (cache.type != "Instruction") std::cout << fmt::format("L{} {}  ", cache.level, cache.size);
  }
  std::cout << fmt::format("\n\n{:<34} {:>7} {:>10} {:>10}\n", "what", "threads", "median", "highest");
  nlohmann::ordered_json figures = nlohmann::ordered_json::array();
  measure_machine(options, [&](const MachineLimit& limit) {
    std::cout << fmt::format("{:<34} {:>7} {:>10.1f} {:>10.1f} {}\n", limit.name, limit.threads, limit.median,
                             limit.highest, limit.unit)
              << std::flush;
    figures.push_back({{"name", limit.name},
                       {"unit", limit.unit},
                       {"threads", limit.threads},
                       {"median", limit.median},
                       {"highest", limit.highest}});
  });
  write_json_file(arguments.output_json, {{"cpu", cpuinfo_field("model name")},
                                          {"isa", ops::cpu::kernels().name},
                                          {"cpus", options.cpus},
                                          {"limits", figures}});
  return 0;
}

}  // namespace

Command add_bench_machine_command(CLI::App& parent) {
  CLI::App* const app = add_subcommand(parent, "machine", "Measure this machine's memory bandwidth and multiply peaks");
  const auto arguments = std::make_shared<Arguments>();
  FlagSet flags(*app);
  flags.group("Measurement")
      .value("--threads", "N", "Threads of the second column (default: as compute threads are counted)",
             into(&arguments->threads, 1, 4096))
      .value("--memory-bytes", "SIZE", "Largest buffer, cut to a third of the free memory (default: 4G)",
             into_size(&arguments->memory, kMiB))
      .value("--num-iters", "N", "Repetitions, of which the median counts (default: 5)",
             into(&arguments->repetitions, 1, 1000))
      .value("--output-json", "PATH", "Write the figures as JSON too", into(&arguments->output_json));
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace quire::cli
