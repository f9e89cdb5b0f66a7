// A model that runs in this process, for serve, chat --model and the offline benchmarks.
#pragma once

#include <memory>
#include <string>

#include "api/async_llm.h"
#include "cli/engine_flags.h"

namespace quire::cli {

/// Loads and starts it; a failure is thrown as StartupError with the sentence of the part that refused. With `log` the
/// start-up lines are logged: model, types, ISA, threads, cache, limits, the true state of chunked prefill.
std::unique_ptr<AsyncLlm> start_local_model(const EngineArguments& arguments, bool log);

/// The lines that start_local_model logs.
std::vector<std::string> describe_start(const AsyncLlm& llm);

}  // namespace quire::cli
