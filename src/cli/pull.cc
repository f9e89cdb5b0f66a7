// `quire pull ORG/NAME`: a model or an adapter from the hub into Hugging Face's cache, without loading it.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "api/load_progress.h"
#include "base/check.h"
#include "cli/command.h"
#include "cli/flag_set.h"
#include "cli/hub_flags.h"
#include "cli/log.h"
#include "hub/download.h"

namespace quire::cli {
namespace {

struct Arguments {
  std::string id;
  HubOptions hub;
  LogArguments log;
};

int run(const Arguments& arguments) {
  if (arguments.id.empty()) throw FlagError("'quire pull' needs the name of a model in the hub: quire pull ORG/NAME.");
  const auto id = parse_hub_id(arguments.id);
  if (!id) {
    throw FlagError(
        fmt::format("'{}' is no name of a model in the hub: give ORG/NAME, or ORG/NAME:Q4_K_M for one of "
                    "several .gguf files.",
                    arguments.id));
  }
  const LogSetup log(arguments.log);
  LoadProgress progress(fmt::format("Downloading {}", arguments.id));
  const auto downloaded = download(*id, HubContent::kModelOrAdapter, arguments.hub, [&](int64_t done, int64_t total) {
    progress.update(done, total);
    return true;
  });
  progress.end();
  if (!downloaded.ok()) throw StartupError(downloaded.error().message);
  std::cout << downloaded->path.string() << std::endl;
  return 0;
}

}  // namespace

Command add_pull_command(CLI::App& parent) {
  CLI::App* const app =
      add_subcommand(parent, "pull", "Download a model or LoRA adapter from the hub, and print its path");
  const auto arguments = std::make_shared<Arguments>();
  FlagSet flags(*app);
  flags.positional("MODEL", "ORG/NAME, or ORG/NAME:Q4_K_M for one of several .gguf files", &arguments->id);
  add_hub_flags(flags, arguments->hub);
  add_log_flags(flags, arguments->log);
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace quire::cli
