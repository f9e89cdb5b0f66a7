// Buckets, observation, and which families there are.
#include "server/metrics.h"

#include <algorithm>
#include <chrono>

#include "server/exposition.h"
#include "server/lora_metrics.h"

namespace quire {

namespace {

using prometheus::MetricType;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// 1, 2, 5, 10, 20, 50, ... up to `limit`.
std::vector<double> one_two_five(int64_t limit) {
  std::vector<double> bounds;
  for (double power = 1; power <= static_cast<double>(limit); power *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power <= static_cast<double>(limit)) bounds.push_back(factor * power);
    }
  }
  return bounds;
}

const std::vector<double> kFirstTokenSeconds = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                                1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const std::vector<double> kTokenSeconds = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                           .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
const std::vector<double> kRequestSeconds = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                             30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const std::vector<double> kStepTokens = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

}  // namespace

struct Metrics::Histograms {
  explicit Histograms(int64_t max_model_len)
      : prompt_tokens(one_two_five(max_model_len)),
        generation_tokens(one_two_five(max_model_len)),
        params_max_tokens(one_two_five(max_model_len)) {}

  Histogram iteration_tokens{kStepTokens};
  Histogram time_to_first_token{kFirstTokenSeconds};
  Histogram inter_token_latency{kTokenSeconds};
  Histogram time_per_output_token{kTokenSeconds};
  Histogram e2e{kRequestSeconds}, queue{kRequestSeconds}, inference{kRequestSeconds}, prefill{kRequestSeconds},
      decode{kRequestSeconds};
  Histogram prompt_tokens, generation_tokens, params_max_tokens;
  AdapterRequestCounts adapter_requests;
};

Metrics::Metrics(std::string model_name, const EngineLimits& limits)
    : model_name_(std::move(model_name)),
      limits_(limits),
      histograms_(std::make_unique<Histograms>(limits.max_model_len)) {}

Metrics::~Metrics() = default;

void Metrics::observe_step(int64_t tokens) {
  const std::lock_guard lock(mutex_);
  histograms_->iteration_tokens.observe(static_cast<double>(tokens));
}

void Metrics::count_adapter_requests(const std::string& name, int64_t requests) {
  const std::lock_guard lock(mutex_);
  histograms_->adapter_requests.add(name, requests);
}

Metrics::Request::Request(Metrics& metrics, std::optional<int64_t> max_tokens)
    : metrics_(metrics), max_tokens_(max_tokens), arrival_(now_seconds()) {}

void Metrics::Request::observe(const TextOutput& output) {
  const double now = output.usage.last_token_time > 0 ? output.usage.last_token_time : now_seconds();
  const size_t tokens = output.token_ids.size();
  if (tokens > 0) {
    const std::lock_guard lock(metrics_.mutex_);
    const double arrival = output.usage.arrival_time > 0 ? output.usage.arrival_time : arrival_;
    if (!has_first_) {
      metrics_.histograms_->time_to_first_token.observe(std::max(0.0, now - arrival));
    } else {
      metrics_.histograms_->inter_token_latency.observe(std::max(0.0, now - last_token_) / static_cast<double>(tokens),
                                                        tokens);
    }
    has_first_ = true;
    last_token_ = now;
  }
  if (output.finished()) metrics_.observe_finished(output, max_tokens_, now_seconds());
}

void Metrics::observe_finished(const TextOutput& output, std::optional<int64_t> max_tokens, double end) {
  const RequestUsage& usage = output.usage;
  const std::lock_guard lock(mutex_);
  Histograms& histograms = *histograms_;
  histograms.prompt_tokens.observe(static_cast<double>(usage.prompt_tokens));
  histograms.generation_tokens.observe(static_cast<double>(usage.completion_tokens));
  if (max_tokens) histograms.params_max_tokens.observe(static_cast<double>(*max_tokens));
  if (usage.arrival_time <= 0 || usage.scheduled_time <= 0) return;  // aborted while it waited
  const auto span = [](Histogram& histogram, double from, double to) { histogram.observe(std::max(0.0, to - from)); };
  span(histograms.e2e, usage.arrival_time, end);
  span(histograms.queue, usage.arrival_time, usage.scheduled_time);
  if (usage.first_token_time <= 0) return;
  span(histograms.prefill, usage.scheduled_time, usage.first_token_time);
  span(histograms.decode, usage.first_token_time, usage.last_token_time);
  span(histograms.inference, usage.scheduled_time, usage.last_token_time);
  if (usage.completion_tokens > 1) {
    const double decode = std::max(0.0, usage.last_token_time - usage.first_token_time);
    histograms.time_per_output_token.observe(decode / static_cast<double>(usage.completion_tokens - 1));
  }
}

namespace {

void add_engine(Exposition& out, const EngineStats& stats) {
  out.gauge("vllm:num_requests_running", "Requests in the running batch.", static_cast<double>(stats.running));
  out.gauge("vllm:num_requests_waiting", "Requests waiting to be scheduled.", static_cast<double>(stats.waiting));
  out.gauge("quire:step_token_budget", "Tokens that the last step could have taken.",
            static_cast<double>(stats.step_token_budget));
  out.gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use, 1 is all of it.", stats.kv_cache_usage);
  out.counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
              stats.prefix_cache_queries);
  out.counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", stats.prefix_cache_hits);
  out.counter("vllm:num_preemptions_total", "Running requests that were preempted.", stats.preemptions);
  out.counter("vllm:prompt_tokens_total", "Prompt tokens processed.", stats.prompt_tokens);
  out.counter("vllm:prompt_tokens_cached_total", "Prompt tokens taken from the prefix cache.",
              stats.prompt_tokens_cached);
  out.counter("vllm:generation_tokens_total", "Tokens generated.", stats.generation_tokens);
  out.labelled("vllm:request_success_total", "Finished requests by reason.", MetricType::Counter, "finished_reason",
               {{"stop", static_cast<double>(stats.finished_stop)},
                {"length", static_cast<double>(stats.finished_length)},
                {"abort", static_cast<double>(stats.finished_abort)},
                {"error", static_cast<double>(stats.finished_error)},
                {"repetition", static_cast<double>(stats.finished_repetition)}});
}

}  // namespace

std::string Metrics::serialize(const EngineStats& stats, const ServingBackend* backend) const {
  Exposition out(model_name_);
  add_engine(out, stats);
  out.info(
      "vllm:cache_config_info", "Settings of the KV cache.",
      {{"block_size", std::to_string(limits_.block_size)}, {"num_gpu_blocks", std::to_string(limits_.num_blocks)}});
  const std::lock_guard lock(mutex_);
  const Histograms& h = *histograms_;
  if (backend != nullptr) add_lora(out, *backend, stats, h.adapter_requests);
  out.histogram("vllm:iteration_tokens_total", "Tokens computed per engine step.", h.iteration_tokens);
  out.histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.", h.time_to_first_token);
  out.histogram("vllm:inter_token_latency_seconds", "Between consecutive tokens of a request.", h.inter_token_latency);
  out.histogram("vllm:request_time_per_output_token_seconds", "Mean time per token after the first, per request.",
                h.time_per_output_token);
  out.histogram("vllm:e2e_request_latency_seconds", "From arrival to the end.", h.e2e);
  out.histogram("vllm:request_queue_time_seconds", "Time spent waiting.", h.queue);
  out.histogram("vllm:request_inference_time_seconds", "Time spent running.", h.inference);
  out.histogram("vllm:request_prefill_time_seconds", "From the first scheduling to the first token.", h.prefill);
  out.histogram("vllm:request_decode_time_seconds", "From the first to the last token.", h.decode);
  out.histogram("vllm:request_prompt_tokens", "Prompt tokens per request.", h.prompt_tokens);
  out.histogram("vllm:request_generation_tokens", "Generated tokens per request.", h.generation_tokens);
  out.histogram("vllm:request_params_max_tokens", "max_tokens as asked for.", h.params_max_tokens);
  return out.text();
}

}  // namespace quire
