// `quire lora merge`: writes a model with an adapter in it.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "base/check.h"
#include "cli/command.h"
#include "cli/flag_set.h"
#include "cli/hub_flags.h"
#include "cli/interrupt.h"
#include "cli/lora_arguments.h"
#include "cli/progress.h"
#include "lora/adapter_merge_folder.h"

namespace quire::cli {
namespace {

struct Arguments {
  std::string model, lora, output;
  std::vector<std::string> model_plugins;
  HubOptions hub;
  int64_t max_shard_bytes = 5'000'000'000;
  int threads = 0;
};

/// What a shell makes of a program that a signal ended, counted from here.
constexpr int kSignalExitCode = 128;
constexpr int64_t kMegabyte = 1'000'000;

int run(const Arguments& arguments) {
  if (arguments.model.empty() || arguments.output.empty()) {
    throw FlagError("'quire lora merge' needs --model, --lora and --output.");
  }
  const auto files = open_adapter(arguments.lora, arguments.hub, "quire lora merge");
  const Checkpoint model = open_base_model(arguments.model, arguments.hub, arguments.model_plugins);
  const InterruptGuard interrupt({SIGINT, SIGTERM, SIGHUP});
  ThreadPoolOptions pool_options;
  pool_options.threads = arguments.threads;
  ThreadPool pool(pool_options);
  std::unique_ptr<Progress> bar;
  MergeOptions options;
  options.max_shard_bytes = arguments.max_shard_bytes;
  options.progress = [&](int64_t done, int64_t total) -> Status {
    if (InterruptGuard::interrupted()) return Error{ErrorKind::kCancelled, "interrupted; nothing is left behind", {}};
    if (!bar) bar = std::make_unique<Progress>("merging (MB)", total / kMegabyte);
    bar->update(done / kMegabyte);
    return {};
  };
  const auto summary = merge_adapter(model, *files, arguments.output, pool, options);
  bar.reset();
  if (!summary.ok() && summary.error().kind == ErrorKind::kCancelled) {
    std::cerr << "quire: " << summary.error().message << "." << std::endl;
    return kSignalExitCode + InterruptGuard::signal();
  }
  if (!summary.ok()) throw StartupError(summary.error().message);
  std::cout << fmt::format("{}: {} of {} tensors changed, {:.1f} MB in {} file{}{}\n", arguments.output,
                           summary->changed_tensors, summary->tensors, static_cast<double>(summary->bytes) / kMegabyte,
                           summary->shards, summary->shards == 1 ? "" : "s",
                           summary->unties_head ? "; the head is not the embedding any more" : "");
  return 0;
}

}  // namespace

Command add_lora_merge_command(CLI::App& parent) {
  CLI::App* const app = add_subcommand(parent, "merge", "Write a model with an adapter merged into its weights");
  const auto arguments = std::make_shared<Arguments>();
  FlagSet flags(*app);
  flags.group("Merge")
      .value("--model", "PATH", "The base model, a folder in Hugging Face's layout or ORG/NAME of the hub",
             into(&arguments->model))
      .repeatable("--model-plugin", "PATH|ARCHITECTURE=PATH",
                  "Shared library with the base model's architecture, repeatable", &arguments->model_plugins)
      .value("--lora", "PATH", "The adapter's folder, or ORG/ADAPTER of the hub", into(&arguments->lora))
      .value("--output", "PATH", "The folder to write; it must not exist", into(&arguments->output))
      .value("--max-shard-size", "SIZE", "Largest weights file (default: 5g)",
             into_size(&arguments->max_shard_bytes, 1))
      .value("--threads", "N", "Compute threads (default: the allowed CPUs, cut to the cgroup's quota)",
             into(&arguments->threads, 1, 4096));
  add_hub_flags(flags, arguments->hub);
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace quire::cli
