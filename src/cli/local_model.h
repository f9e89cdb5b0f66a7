// A model that runs in this process, for serve, chat --model and the offline benchmarks.
#pragma once

#include <memory>
#include <string>

#include "api/async_llm.h"
#include "cli/engine_flags.h"

namespace quire::cli {

/// Under mpirun every rank runs the same command: one after the first serves the first here, to the end of the program
/// (EndOfProgram). Returns in all other processes. A job of another number of ranks is refused (StartupError).
void serve_first_rank(const EngineConfig& config);

/// Loads and starts it; a failure is thrown as StartupError with the sentence of the part that refused. With `log` the
/// start-up lines are logged: model, types, ISA, threads, cache, limits, the true state of chunked prefill.
std::unique_ptr<AsyncLlm> start_local_model(const EngineArguments& arguments, bool log);

/// The lines that start_local_model logs.
std::vector<std::string> describe_start(const AsyncLlm& llm);

}  // namespace quire::cli
