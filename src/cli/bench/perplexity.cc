// `quire bench perplexity`: how well the model, as it is stored and computed, foretells a text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/check.h"
#include "cli/bench/json_file.h"
#include "cli/bench/offline_arguments.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/flag_set.h"
#include "cli/local_model.h"
#include "cli/log.h"

namespace quire::cli {
namespace {

struct Arguments {
  EngineArguments engine;
  LogArguments log{"warning"};
  std::string text;
  int64_t window = 512;
  std::string output_json;
};

/// Of the tokens that were told beforehand.
struct Sum {
  double log_likelihood = 0;
  int64_t tokens = 0;
};

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) throw StartupError(fmt::format("--text {}: the file cannot be read.", path));
  return text.str();
}

/// The log-probabilities of all tokens of a window but its first.
Sum score(AsyncLlm& llm, std::vector<int32_t> window, int64_t index) {
  TextRequest request;
  request.id = fmt::format("perplexity-{}", index);
  request.prompt = std::move(window);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 1;
  request.sampling.prompt_logprobs = 0;
  const auto done = std::make_shared<std::promise<Result<Sum>>>();
  const auto sum = std::make_shared<Sum>();
  auto result = done->get_future();
  const Status status = llm.submit(std::move(request), [done, sum](TextOutput&& output) {
    for (const SampledToken& token : output.prompt_logprobs) {
      if (token.logprobs.empty()) continue;
      sum->log_likelihood += static_cast<double>(token.logprobs.front().logprob);
      ++sum->tokens;
    }
    if (!output.finished()) return;
    done->set_value(output.error ? Result<Sum>(*output.error) : Result<Sum>(*sum));
  });
  if (!status.ok()) throw StartupError(status.error().message);
  const Result<Sum> outcome = result.get();
  if (!outcome.ok()) throw StartupError(outcome.error().message);
  return *outcome;
}

int run(Arguments& a) {
  require_model(a.engine);
  if (a.text.empty()) throw FlagError("The benchmark needs a text: give a file with --text PATH.");
  check_engine_arguments(a.engine);
  const LogSetup log(a.log);
  const std::string text = read_text(a.text);
  const std::unique_ptr<AsyncLlm> llm = start_local_model(a.engine, true);
  if (a.window + 1 > llm->limits().max_model_len) {
    throw StartupError(fmt::format("--window {} and one token more are beyond the model's context of {}", a.window,
                                   llm->limits().max_model_len));
  }
  const auto ids = llm->tokenizer().encode(text, true);
  if (!ids.ok()) throw StartupError(ids.error().message);
  Sum total;
  for (size_t begin = 0; begin + 1 < ids->size(); begin += static_cast<size_t>(a.window)) {
    const size_t end = std::min(ids->size(), begin + static_cast<size_t>(a.window));
    if (end - begin < 2) break;
    const auto first = ids->begin() + static_cast<std::ptrdiff_t>(begin);
    const Sum sum = score(*llm, {first, ids->begin() + static_cast<std::ptrdiff_t>(end)}, static_cast<int64_t>(begin));
    total.log_likelihood += sum.log_likelihood;
    total.tokens += sum.tokens;
  }
  if (total.tokens == 0) throw StartupError(fmt::format("--text {} has fewer than two tokens.", a.text));
  const double mean = total.log_likelihood / static_cast<double>(total.tokens);
  std::cout << fmt::format("Perplexity: {:.4f} over {} tokens, windows of {} (mean log-likelihood {:.5f})\n",
                           std::exp(-mean), total.tokens, a.window, mean);
  write_json_file(a.output_json, {{"model", a.engine.config.model},
                                  {"quantization", a.engine.config.quantization},
                                  {"perplexity", std::exp(-mean)},
                                  {"tokens", total.tokens},
                                  {"window", a.window}});
  return 0;
}

}  // namespace

Command add_bench_perplexity_command(CLI::App& parent) {
  CLI::App* const app = add_subcommand(parent, "perplexity", "How well a model foretells a text, as it is stored");
  const auto arguments = std::make_shared<Arguments>();
  arguments->engine.config.offline = true;
  FlagSet flags(*app);
  flags.group("Benchmark")
      .value("--text", "PATH", "A text file", into(&arguments->text))
      .value("--window", "N", "Tokens that are looked at together (default: 512)", into_size(&arguments->window, 2))
      .value("--output-json", "PATH", "Write the result as JSON too", into(&arguments->output_json));
  flags.group("Model").value("--model", "PATH", "A Hugging Face folder, a .gguf file, or ORG/NAME of the hub",
                             into(&arguments->engine.config.model));
  add_engine_flags(flags, arguments->engine);
  add_log_flags(flags, arguments->log);
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace quire::cli
