// A subcommand: its flags in CLI11 and what it does once they are read.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace quire::cli {

/// Returns the exit code. Throws FlagError (exit 2) or StartupError (exit 1) with one sentence.
using Run = std::function<int()>;

struct Command {
  CLI::App* app = nullptr;
  Run run;
};

/// A command below `parent`, for a FlagSet to fill.
CLI::App* add_subcommand(CLI::App& parent, const std::string& name, const std::string& help);

Command add_serve_command(CLI::App& parent);
Command add_pull_command(CLI::App& parent);
Command add_chat_command(CLI::App& parent);
Command add_complete_command(CLI::App& parent);
Command add_bench_throughput_command(CLI::App& parent);
Command add_bench_latency_command(CLI::App& parent);
Command add_bench_serve_command(CLI::App& parent);
Command add_bench_perplexity_command(CLI::App& parent);
Command add_bench_machine_command(CLI::App& parent);
Command add_lora_inspect_command(CLI::App& parent);
Command add_lora_merge_command(CLI::App& parent);
Command add_collect_env_command(CLI::App& parent);

}  // namespace quire::cli
