// `quire serve`: a model behind the OpenAI API.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cli/adapter_flags.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/flag_set.h"
#include "cli/local_model.h"
#include "cli/log.h"
#include "cli/server_flags.h"
#include "cli/version.h"
#include "server/server.h"

namespace quire::cli {
namespace {

struct Arguments {
  EngineArguments engine;
  ServerArguments server;
  LogArguments log;
  std::string model_flag;
  std::vector<std::string> lora_modules;
};

/// The positional MODEL; vLLM's older spelling --model says the same. Its names in requests must be some.
void settle_model(Arguments& a) {
  std::string& model = a.engine.config.model;
  if (!model.empty() && !a.model_flag.empty() && model != a.model_flag) {
    throw FlagError(fmt::format("MODEL is given twice: '{}' and --model '{}'.", model, a.model_flag));
  }
  if (model.empty()) model = a.model_flag;
  if (model.empty())
    throw FlagError(
        "'quire serve' needs a model: quire serve PATH (a Hugging Face folder or a .gguf file) or ORG/NAME (of the "
        "hub).");
  for (const std::string& name : a.server.options.served_model_names) {
    if (name.empty()) throw FlagError("--served-model-name: a name may not be empty.");
  }
}

/// The names that requests may use for the model itself; adapters may not take them.
std::vector<std::string> base_names(const Arguments& a) {
  const std::vector<std::string>& names = a.server.options.served_model_names;
  return names.empty() ? std::vector<std::string>{a.engine.config.model} : names;
}

void load_lora_modules(AsyncLlm& llm, const Arguments& a, const std::vector<AdapterSpec>& specs) {
  if (llm.adapters() == nullptr) return;
  llm.adapters()->reserve_names(base_names(a));
  load_adapters(llm, specs);
}

int run(Arguments& a) {
  settle_model(a);
  check_lora_arguments(a.engine.config.lora, a.lora_modules);
  check_engine_arguments(a.engine);
  std::vector<AdapterSpec> adapters;
  for (const std::string& text : a.lora_modules) adapters.push_back(parse_lora_module(text));
  settle_api_keys(a.server);
  settle_tls(a.server);
  if (a.server.disable_log_stats) a.server.options.stats_interval = std::chrono::hours(24 * 365);
  const LogSetup log(a.log);
  serve_first_rank(a.engine.config);
  spdlog::info("quire {}", version());
  auto address = BoundAddress::bind(a.server.options.host, a.server.options.port);
  if (!address.ok()) throw StartupError(address.error().message);
  const auto begin = std::chrono::steady_clock::now();
  const std::unique_ptr<AsyncLlm> llm = start_local_model(a.engine, true);
  load_lora_modules(*llm, a, adapters);
  spdlog::info("Ready after {:.2f} s", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return run_server(a.server.options, *llm, std::move(address).value());
}

}  // namespace

Command add_serve_command(CLI::App& parent) {
  CLI::App* const app = add_subcommand(parent, "serve", "Serve a model with an OpenAI-compatible API");
  const auto arguments = std::make_shared<Arguments>();
  FlagSet flags(*app);
  flags.positional("MODEL", "A Hugging Face folder, a .gguf file, or ORG/NAME of the hub",
                   &arguments->engine.config.model);
  flags.group("").value("--model", "PATH", "", into(&arguments->model_flag));
  add_server_flags(flags, arguments->server);
  add_engine_flags(flags, arguments->engine);
  add_lora_server_flags(flags, arguments->engine.config.lora, arguments->lora_modules);
  add_log_flags(flags, arguments->log);
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace quire::cli
