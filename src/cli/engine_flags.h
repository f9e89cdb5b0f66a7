// The flags of EngineConfig, shared by every command that runs a model in this process.
#pragma once

#include <string>

#include "cli/flag_set.h"
#include "engine/engine_config.h"

namespace quire::cli {

/// An engine's settings as the command line gives them.
struct EngineArguments {
  EngineConfig config;
  std::string tokenizer;      ///< --tokenizer; empty: the model's own
  std::string chat_template;  ///< --chat-template: a path or the template's text; empty: the model's own
};

/// Adds the model and engine groups, and the vLLM flags that are not built (hidden; refused by name when given).
void add_engine_flags(FlagSet& flags, EngineArguments& arguments);

/// Takes QUIRE_PP_LAYER_PARTITION where its flag is not given; then contradictions that show without the model, which
/// throw FlagError.
void check_engine_arguments(EngineArguments& arguments);

}  // namespace quire::cli
