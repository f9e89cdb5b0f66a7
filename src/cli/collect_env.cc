// `quire collect-env`: what a report of a problem should say of the machine.
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <spdlog/version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <boost/version.hpp>
#include <cstdlib>
#include <fstream>
#include <CLI/Version.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/cgroup_limits.h"
#include "base/check.h"
#include "base/cpu_topology.h"
#include "base/thread_pool.h"
#include "cli/command.h"
#include "cli/system_info.h"
#include "cli/version.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/machine_kernels.h"

namespace quire::cli {
namespace {

using ops::cpu::Isa;

void line(const std::string& name, const std::string& value) {
  std::cout << fmt::format("{:<28} {}\n", name + ":", value.empty() ? "unknown" : value);
}

void heading(const std::string& name) { std::cout << "\n" << name << "\n" << std::string(name.size(), '-') << "\n"; }

std::string gibibytes(std::optional<int64_t> bytes, const char* none) {
  return bytes ? fmt::format("{:.2f} GiB", static_cast<double>(*bytes) / (int64_t{1} << 30)) : none;
}

std::string operating_system() {
  std::ifstream file("/etc/os-release");
  for (std::string text; std::getline(file, text);) {
    if (text.rfind("PRETTY_NAME=", 0) == 0) {
      text = text.substr(12);
      if (text.size() >= 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
      return text;
    }
  }
  return {};
}

std::string isa_used() {
  try {
    return ops::cpu::kernels().name;
  } catch (const StartupError& error) {
    return error.what();
  }
}

std::string isas_offered() {
  std::string text;
  for (const auto& [isa, name] : {std::pair{Isa::kGeneric, "generic"},
                                  {Isa::kAvx2, "avx2"},
                                  {Isa::kAvx512, "avx512"},
                                  {Isa::kAvx512Bf16, "avx512_bf16"}}) {
    if (ops::cpu::kernels_for(isa) == nullptr) continue;
    const ops::cpu::MachineKernels loops = ops::cpu::machine_kernels_for(isa);
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", name, loops.bf16_dot.run != nullptr ? " +bf16" : "",
                        loops.int8_dot.run != nullptr ? " +vnni" : "");
  }
  return text;
}

/// Of the CPU's flags, those that decide how fast quire can be.
std::string telling_flags() {
  std::istringstream flags(cpuinfo_field("flags"));
  std::string text;
  for (std::string flag; flags >> flag;) {
    const bool telling = flag.rfind("avx", 0) == 0 || flag.rfind("amx", 0) == 0 || flag == "fma" || flag == "f16c" ||
                         flag == "sse4_2" || flag == "hypervisor";
    if (telling) text += (text.empty() ? "" : " ") + flag;
  }
  return text;
}

void print_build() {
  heading("quire");
  line("version", std::string(version()));
#if defined(__clang__)
  line("compiler", fmt::format("clang {}", __clang_version__));
#else
  line("compiler", fmt::format("g++ {}", __VERSION__));
#endif
#if defined(NDEBUG)
  line("build", "release");
#else
  line("build", "with debug checks");
#endif
  line("ISA in use", isa_used());
  line("ISAs this CPU offers", isas_offered());
  line("compute threads", std::to_string(default_compute_threads()));
  for (const char* name : {"QUIRE_CPU_ISA", "QUIRE_API_KEY", "VLLM_API_KEY"}) {
    const char* const value = std::getenv(name);
    const bool secret = std::string_view(name).ends_with("_KEY");
    line(name, value == nullptr ? "not set" : secret ? "set" : value);
  }
}

void print_machine() {
  heading("CPU");
  line("model", cpuinfo_field("model name"));
  line("flags", telling_flags());
  line("CPUs online", std::to_string(sysconf(_SC_NPROCESSORS_ONLN)));
  line("CPUs allowed", format_cpu_list(allowed_cpus()));
  const auto quota = cgroup_cpu_quota();
  line("cgroup CPU quota", quota ? fmt::format("{:.2f} CPUs", *quota) : "none");
  for (const CpuCache& cache : cpu_caches()) {
    line(fmt::format("L{} {} cache", cache.level, cache.type == "Unified" ? "unified" : cache.type), cache.size);
  }
  heading("Memory");
  line("total", gibibytes(meminfo_bytes("MemTotal"), ""));
  line("available", gibibytes(meminfo_bytes("MemAvailable"), ""));
  line("cgroup memory left", gibibytes(cgroup_memory_left(), "no limit"));
  line("transparent huge pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  line("huge page defragmentation", first_line("/sys/kernel/mm/transparent_hugepage/defrag"));
  line("NUMA nodes", first_line("/sys/devices/system/node/online"));
}

void print_system() {
  heading("System");
  utsname names{};
  uname(&names);
  line("operating system", operating_system());
  line("kernel", fmt::format("{} {} {}", names.sysname, names.release, names.machine));
  line("C library", fmt::format("glibc {}", gnu_get_libc_version()));
  heading("Libraries");
  line("Boost", fmt::format("{}.{}.{}", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100));
  line("CLI11", CLI11_VERSION);
  line("fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100));
  line("spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH));
  line("nlohmann-json",
       fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH));
}

}  // namespace

Command add_collect_env_command(CLI::App& parent) {
  CLI::App* const app = add_subcommand(parent, "collect-env", "Print what a problem report should say of this machine");
  return {app, [] {
            print_build();
            print_machine();
            print_system();
            return 0;
          }};
}

}  // namespace quire::cli
