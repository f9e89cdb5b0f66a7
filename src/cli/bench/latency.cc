// `quire bench latency`: one batch again and again; prefill and decode apart.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench/engine_profile.h"
#include "cli/bench/json_file.h"
#include "cli/bench/offline_arguments.h"
#include "cli/bench/offline_load.h"
#include "cli/bench/statistics.h"
#include "cli/command.h"
#include "cli/flag_set.h"
#include "cli/progress.h"

namespace quire::cli {
namespace {

struct Arguments {
  OfflineArguments offline;
  int64_t batch_size = 8, warmups = 2, iterations = 10;
};

/// One value per iteration.
struct Samples {
  std::vector<double> latency, first_token, decode_rate;
};

Samples measure(AsyncLlm& llm, const Arguments& a) {
  Samples samples;
  Progress bar("iterations", a.warmups + a.iterations, !a.offline.disable_progress);
  for (int64_t i = 0; i < a.warmups + a.iterations; ++i) {
    // Other prompts each time: none is in the prefix cache.
    const auto prompts =
        random_prompts(a.batch_size, a.offline.shape,
                       static_cast<uint64_t>(a.offline.engine.config.seed) * 1'000'003 + static_cast<uint64_t>(i));
    const BatchTimes batch = run_batch(llm, prompts, a.offline.temperature, a.offline.adapters);
    bar.update(i + 1);
    if (i < a.warmups) continue;
    const BatchPhases phases = split_phases(batch);
    samples.latency.push_back(batch.seconds);
    samples.first_token.push_back(phases.first_token_seconds);
    if (phases.decode_tokens_per_second > 0) samples.decode_rate.push_back(phases.decode_tokens_per_second);
  }
  return samples;
}

int run(Arguments& a) {
  const std::unique_ptr<AsyncLlm> llm = start_offline(a.offline);
  const EngineProfile profile(llm->engine(), a.offline.profile);
  const Samples samples = measure(*llm, a);
  const double batch = static_cast<double>(a.batch_size);
  const double ttft = median(samples.first_token);
  const double prompt_tokens = batch * static_cast<double>(a.offline.shape.input_len);
  const double prefill_rate = ttft > 0 ? prompt_tokens / ttft : 0;
  const double decode_rate = median(samples.decode_rate);
  const double step_ms = decode_rate > 0 ? batch / decode_rate * 1e3 : 0;
  std::cout << fmt::format("Batch {}, {} tokens in, {} out, median of {}\n", a.batch_size, a.offline.shape.input_len,
                           a.offline.shape.output_len, a.iterations)
            << fmt::format("{:<34} {:>10.4f} s\n", "Latency:", median(samples.latency))
            << fmt::format("{:<34} {:>10.1f} ms\n", "Prefill (all first tokens):", ttft * 1e3)
            << fmt::format("{:<34} {:>10.1f} tok/s\n", "Prefill rate:", prefill_rate);
  if (decode_rate > 0) {
    std::cout << fmt::format("{:<34} {:>10.2f} ms\n", "Decode, time per step:", step_ms)
              << fmt::format("{:<34} {:>10.1f} tok/s\n", "Decode rate, batch together:", decode_rate);
  }
  nlohmann::ordered_json percentiles;
  for (const int p : {10, 25, 50, 75, 90, 99}) {
    percentiles[std::to_string(p)] = percentile(samples.latency, p);
    std::cout << fmt::format("Latency p{}: {:.4f} s\n", p, percentile(samples.latency, p));
  }
  if (a.offline.profile) std::cout << profile.report();
  write_json_file(a.offline.output_json, {{"model", a.offline.engine.config.model},
                                          {"batch_size", a.batch_size},
                                          {"input_len", a.offline.shape.input_len},
                                          {"output_len", a.offline.shape.output_len},
                                          {"avg_latency", summarize(samples.latency).mean},
                                          {"latencies", samples.latency},
                                          {"percentiles", percentiles},
                                          {"median_ttft_ms", ttft * 1e3},
                                          {"prefill_tokens_per_second", prefill_rate},
                                          {"median_decode_step_ms", step_ms},
                                          {"decode_tokens_per_second", decode_rate}});
  return 0;
}

}  // namespace

Command add_bench_latency_command(CLI::App& parent) {
  CLI::App* const app = add_subcommand(parent, "latency", "Time one batch: prefill and decode apart");
  const auto arguments = std::make_shared<Arguments>();
  arguments->offline.shape = {.input_len = 32, .output_len = 128};
  FlagSet flags(*app);
  flags.group("Benchmark")
      .value("--batch-size", "N", "Requests at once (default: 8)", into(&arguments->batch_size, 1))
      .value("--num-iters", "N", "Measured repetitions (default: 10)", into(&arguments->iterations, 1))
      .value("--num-iters-warmup", "N", "Repetitions before them (default: 2)", into(&arguments->warmups, 0));
  add_offline_flags(flags, arguments->offline);
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace quire::cli
