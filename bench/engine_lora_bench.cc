// What adapters cost a busy engine: 16 sequences of 256 prompt tokens and 128 more, of the base model, of one adapter
// and of many, in turn. Usage: engine_lora_bench MODEL ADAPTER... [--rounds N]
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "engine/single_process_executor.h"

namespace quire {
namespace {

constexpr int64_t kSequences = 16;
constexpr int64_t kPrompt = 256;
constexpr int64_t kOutput = 128;
constexpr int64_t kBudget = 2048;  ///< tokens of a prefill step

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Seconds {
  double prefill = 0;
  double decode = 0;
  double all() const { return prefill + decode; }
};

class Load {
 public:
  Load(Executor& executor, int64_t block_size) : executor_(executor) {
    const int64_t blocks = (kPrompt + kOutput + block_size - 1) / block_size;
    for (int64_t i = 0; i < kSequences; ++i) {
      blocks_.emplace_back(static_cast<size_t>(blocks));
      std::iota(blocks_.back().begin(), blocks_.back().end(), static_cast<int32_t>(i * blocks));
      tokens_.emplace_back();
      for (int64_t k = 0; k < kPrompt + kOutput; ++k) {
        tokens_.back().push_back(static_cast<int32_t>(100 + (i * 977 + k * 131) % 40000));
      }
    }
    params_.temperature = 0;
  }

  /// One whole load in which sequence i belongs to ids[i * ids.size() / kSequences].
  Seconds run(const std::vector<uint64_t>& ids) {
    Seconds seconds;
    double begin = now();
    for (int64_t first = 0; first < kSequences; first += kBudget / kPrompt) {
      step(ids, first, std::min(kSequences, first + kBudget / kPrompt), 0, kPrompt);
    }
    seconds.prefill = now() - begin;
    begin = now();
    for (int64_t position = kPrompt; position + 1 < kPrompt + kOutput; ++position)
      step(ids, 0, kSequences, position, 1);
    seconds.decode = now() - begin;
    return seconds;
  }

 private:
  void step(const std::vector<uint64_t>& ids, int64_t first, int64_t last, int64_t start, int64_t count) {
    StepPlan plan;
    for (int64_t i = first; i < last; ++i) {
      ScheduledSequence sequence;
      sequence.tokens = std::span<const int32_t>(tokens_[static_cast<size_t>(i)])
                            .subspan(static_cast<size_t>(start), static_cast<size_t>(count));
      sequence.start = start;
      sequence.block_tables.assign(executor_.kv_cache_groups().size(), blocks_[static_cast<size_t>(i)]);
      sequence.sample = true;
      sequence.sampling = {&params_, 0, start + count, 0};
      sequence.adapter_id = ids[static_cast<size_t>(i) * ids.size() / static_cast<size_t>(kSequences)];
      plan.sequences.push_back(std::move(sequence));
      plan.total_tokens += count;
    }
    StepResult result;
    const Status status = executor_.execute(plan, result);
    if (!status.ok()) throw StartupError(status.error().message);
  }

  Executor& executor_;
  SamplingParams params_;
  std::vector<std::vector<int32_t>> blocks_, tokens_;
};

template <typename T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw StartupError(result.error().message);
  return std::move(*result);
}

void print_ratios(const std::string& name, const std::vector<Seconds>& base, const std::vector<Seconds>& own) {
  const auto line = [&](const char* part, auto seconds_of) {
    std::vector<double> ratios;
    for (size_t i = 0; i < base.size(); ++i) ratios.push_back(seconds_of(base[i]) / seconds_of(own[i]));
    std::ranges::sort(ratios);
    fmt::print("{:<12} {:<8} {:.3f} of base ({:.3f} to {:.3f})\n", name, part, ratios[ratios.size() / 2],
               ratios.front(), ratios.back());
  };
  line("all", [](const Seconds& s) { return s.all(); });
  line("prefill", [](const Seconds& s) { return s.prefill; });
  line("decode", [](const Seconds& s) { return s.decode; });
}

void run(int argc, char** argv) {
  std::vector<std::string> paths;
  int rounds = 7;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--rounds" && i + 1 < argc) {
      rounds = std::stoi(argv[++i]);
    } else {
      paths.emplace_back(argv[i]);
    }
  }
  if (paths.size() < 2 || rounds < 1) throw StartupError("usage: engine_lora_bench MODEL ADAPTER... [--rounds N]");
  EngineConfig config;
  config.model = paths[0];
  config.offline = true;
  config.num_kv_blocks_override = kSequences * (kPrompt + kOutput) / config.block_size;
  LoadedExecutor loaded =
      value_or_throw(create_single_process_executor(config, value_or_throw(open_checkpoint(paths[0])), nullptr));
  std::vector<uint64_t> ids;
  for (size_t i = 1; i < paths.size(); ++i) {
    const auto files = value_or_throw(AdapterFiles::open(paths[i]));
    const double begin = now();
    const AdapterSummary summary = value_or_throw(loaded.executor->load_adapter(i, *files));
    fmt::print("{}: {:.1f} MiB loaded in {:.1f} ms\n", paths[i], static_cast<double>(summary.bytes) / (1 << 20),
               1e3 * (now() - begin));
    ids.push_back(i);
  }
  Load load(*loaded.executor, config.block_size);
  load.run(ids);
  std::vector<Seconds> base, one, many;
  for (int round = 0; round < rounds; ++round) {
    base.push_back(load.run({0}));
    one.push_back(load.run({ids[0]}));
    many.push_back(load.run(ids));
  }
  fmt::print("base: prefill {:.0f} ms, decode {:.2f} ms a step\n", 1e3 * base[0].prefill,
             1e3 * base[0].decode / static_cast<double>(kOutput - 1));
  print_ratios("1 adapter", base, one);
  print_ratios(fmt::format("{} adapters", ids.size()), base, many);
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  try {
    quire::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
