// What `bench latency` and `bench throughput` share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/async_llm.h"
#include "cli/bench/random_prompts.h"
#include "cli/engine_flags.h"
#include "cli/log.h"

namespace quire::cli {

struct OfflineArguments {
  EngineArguments engine;
  LogArguments log{"warning"};
  PromptShape shape;
  double temperature = 0;
  std::vector<std::string> lora;       ///< --lora
  std::vector<AdapterLease> adapters;  ///< loaded from there
  std::string output_json;
  bool disable_progress = false;
  bool profile = false;  ///< --profile
};

/// --model, lengths, --temperature, --output-json, then the engine's flags with the offline defaults.
void add_offline_flags(FlagSet& flags, OfflineArguments& arguments);

/// Throws FlagError where no model is given.
void require_model(const EngineArguments& arguments);

/// Judges the arguments, loads the model, aims the prompts at its vocabulary.
std::unique_ptr<AsyncLlm> start_offline(OfflineArguments& arguments);

}  // namespace quire::cli
