// The flags of LoRA adapters.
#pragma once

#include <string>
#include <vector>

#include "api/async_llm.h"
#include "cli/flag_set.h"

namespace quire::cli {

/// --enable-lora and the limits, for every command that runs a model in this process.
void add_lora_engine_flags(FlagSet& flags, LoraConfig& config);

/// --lora-modules and --lora-dir, the server's.
void add_lora_server_flags(FlagSet& flags, LoraConfig& config, std::vector<std::string>& modules);

/// --lora, for commands that load adapters of their own.
void add_lora_path_flag(FlagSet& flags, std::vector<std::string>& paths);

/// Contradictions that show without the model; throws FlagError. `modules` are --lora-modules.
void check_lora_arguments(const LoraConfig& config, const std::vector<std::string>& modules = {});

/// One value of --lora-modules: NAME=PATH, or JSON with name, path and base_model_name. Throws FlagError.
AdapterSpec parse_lora_module(const std::string& text);

/// Loads the adapters, those of a hub downloaded first, and returns them in order; throws StartupError with the
/// sentence of the first that cannot be.
std::vector<AdapterLease> load_adapters(AsyncLlm& llm, const std::vector<AdapterSpec>& specs);

/// The paths of --lora as adapters, each under its path and its place as name.
std::vector<AdapterSpec> specs_of_paths(const std::vector<std::string>& paths);

}  // namespace quire::cli
