// `quire bench throughput`: many requests at once, how long they take.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench/engine_profile.h"
#include "cli/bench/json_file.h"
#include "cli/bench/offline_arguments.h"
#include "cli/bench/offline_load.h"
#include "cli/command.h"
#include "cli/flag_set.h"

namespace quire::cli {
namespace {

struct Arguments {
  OfflineArguments offline;
  int64_t num_prompts = 1000, warmups = 1;
};

int run(Arguments& a) {
  const std::unique_ptr<AsyncLlm> llm = start_offline(a.offline);
  const uint64_t seed = static_cast<uint64_t>(a.offline.engine.config.seed);
  if (a.warmups > 0)
    run_batch(*llm, random_prompts(a.warmups, a.offline.shape, ~seed), a.offline.temperature, a.offline.adapters);
  const auto prompts = random_prompts(a.num_prompts, a.offline.shape, seed);
  const EngineStats before = llm->stats();
  const EngineProfile profile(llm->engine(), a.offline.profile);
  const BatchTimes batch = run_batch(*llm, prompts, a.offline.temperature, a.offline.adapters);
  const EngineStats after = llm->stats();
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    prompt_tokens += static_cast<int64_t>(prompts[i].ids.size());
    output_tokens += static_cast<int64_t>(batch.requests[i].times.size());
  }
  const auto rate = [&](int64_t count) { return static_cast<double>(count) / batch.seconds; };
  std::cout << fmt::format("Throughput: {:.2f} requests/s, {:.2f} total tokens/s, {:.2f} output tokens/s\n",
                           rate(a.num_prompts), rate(prompt_tokens + output_tokens), rate(output_tokens))
            << fmt::format("Total prompt tokens: {} ({:.2f} tok/s)\nTotal output tokens: {}\nElapsed: {:.3f} s\n",
                           prompt_tokens, rate(prompt_tokens), output_tokens, batch.seconds)
            << profile.report();
  write_json_file(a.offline.output_json, {{"model", a.offline.engine.config.model},
                                          {"elapsed_time", batch.seconds},
                                          {"num_requests", a.num_prompts},
                                          {"total_num_tokens", prompt_tokens + output_tokens},
                                          {"requests_per_second", rate(a.num_prompts)},
                                          {"tokens_per_second", rate(prompt_tokens + output_tokens)},
                                          {"prompt_tokens_per_second", rate(prompt_tokens)},
                                          {"output_tokens_per_second", rate(output_tokens)},
                                          {"steps", after.steps - before.steps},
                                          {"preemptions", after.preemptions - before.preemptions}});
  return 0;
}

}  // namespace

Command add_bench_throughput_command(CLI::App& parent) {
  CLI::App* const app = add_subcommand(parent, "throughput", "Time many requests at once");
  const auto arguments = std::make_shared<Arguments>();
  arguments->offline.shape = {.input_len = 512, .output_len = 128};
  PromptShape& shape = arguments->offline.shape;
  FlagSet flags(*app);
  flags.group("Benchmark")
      .value("--num-prompts", "N", "Requests, all sent at once (default: 1000)", into(&arguments->num_prompts, 1))
      .value("--random-range-ratio", "R", "Lengths vary by up to this share, 0 to 1 (default: 0)",
             into(&shape.range_ratio, 0, 1))
      .value("--random-prefix-len,--prefix-len", "N",
             "Tokens that all prompts begin with, beside --input-len (default: 0)", into_size(&shape.prefix_len, 0))
      .value("--num-warmups", "N", "Requests before, not measured (default: 1)", into(&arguments->warmups, 0));
  add_offline_flags(flags, arguments->offline);
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace quire::cli
