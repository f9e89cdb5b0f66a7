#include "cli/bench/offline_load.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/check.h"

namespace quire::cli {
namespace {

using std::chrono::steady_clock;

/// What the callbacks fill. They hold it too: a request that failed to be queued must not leave the others with a
/// dangling place.
struct Ledger {
  std::mutex mutex;
  std::condition_variable changed;
  size_t running = 0;
  std::string failure;
  BatchTimes times;
};

void take(Ledger& ledger, size_t index, double now, const TextOutput& output) {
  const std::lock_guard lock(ledger.mutex);
  TokenTimes& record = ledger.times.requests[index];
  record.times.insert(record.times.end(), output.token_ids.size(), now);
  if (!output.finished()) return;
  if (output.error && ledger.failure.empty()) ledger.failure = output.error->message;
  ledger.times.seconds = now;
  if (--ledger.running == 0) ledger.changed.notify_all();
}

}  // namespace

BatchTimes run_batch(AsyncLlm& llm, const std::vector<RandomPrompt>& prompts, double temperature,
                     const std::vector<AdapterLease>& adapters) {
  const auto ledger = std::make_shared<Ledger>();
  ledger->times.requests.resize(prompts.size());
  static int64_t batch = 0;
  ++batch;
  SamplingParams sampling;
  sampling.temperature = temperature;
  sampling.ignore_eos = true;
  const auto begin = steady_clock::now();
  for (size_t i = 0; i < prompts.size(); ++i) {
    sampling.max_tokens = prompts[i].output_len;
    {
      const std::lock_guard lock(ledger->mutex);
      ++ledger->running;
    }
    const Status status =
        llm.submit({.id = "bench-" + std::to_string(batch) + "-" + std::to_string(i),
                    .prompt = prompts[i].ids,
                    .sampling = sampling,
                    .adapter = adapters.empty() ? nullptr : adapters[i % adapters.size()]},
                   [ledger, i, begin](TextOutput&& output) {
                     take(*ledger, i, std::chrono::duration<double>(steady_clock::now() - begin).count(), output);
                   });
    if (!status.ok()) throw StartupError(status.error().message);
  }
  std::unique_lock lock(ledger->mutex);
  ledger->changed.wait(lock, [&] { return ledger->running == 0; });
  if (!ledger->failure.empty()) throw StartupError(ledger->failure);
  return std::move(ledger->times);
}

BatchPhases split_phases(const BatchTimes& batch) {
  BatchPhases phases;
  double first_end = batch.seconds;
  for (const TokenTimes& request : batch.requests) {
    if (request.times.empty()) return {};
    phases.first_token_seconds = std::max(phases.first_token_seconds, request.times.front());
    first_end = std::min(first_end, request.times.back());
  }
  int64_t tokens = 0;
  for (const TokenTimes& request : batch.requests) {
    tokens += std::count_if(request.times.begin(), request.times.end(),
                            [&](double time) { return time > phases.first_token_seconds && time <= first_end; });
  }
  const double window = first_end - phases.first_token_seconds;
  if (tokens > 0 && window > 0) phases.decode_tokens_per_second = static_cast<double>(tokens) / window;
  return phases;
}

void draw_from_vocabulary(PromptShape& shape, int64_t vocab_size) {
  shape.lowest_id = std::min<int64_t>(1000, vocab_size / 2);
  shape.highest_id = vocab_size - 1;
}

}  // namespace quire::cli
