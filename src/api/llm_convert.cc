#include "api/llm_convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "tensor/dtype.h"

namespace quire {
namespace {

Status parse_dtype(const std::string& name, const char* option, std::optional<DType>& out) {
  if (name == "auto") return {};
  out = parse_float_dtype(name);
  if (out) return {};
  return invalid_argument(fmt::format("{} is '{}', but must be auto, float32, bfloat16 or float16.", option, name),
                          option);
}

LLM::LogprobMap logprob_map(const SampledToken& token, const Tokenizer& tokenizer) {
  LLM::LogprobMap map;
  for (const TokenLogprob& entry : token.logprobs) {
    if (map.contains(entry.token)) continue;  // the chosen one comes first, and again among the most likely
    Result<std::string> text = tokenizer.decode({&entry.token, 1}, false);
    map[entry.token] = {entry.logprob, entry.rank, text.ok() ? std::move(text).value() : std::string()};
  }
  return map;
}

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

LLMError to_public(const Error& error) {
  using Code = LLMError::Code;
  Code code = Code::kInternal;
  switch (error.kind) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kUnauthorized:
      code = Code::kInvalidArgument;
      break;
    case ErrorKind::kNotFound:
      code = Code::kNotFound;
      break;
    case ErrorKind::kUnsupported:
      code = Code::kUnsupported;
      break;
    case ErrorKind::kUnavailable:
    case ErrorKind::kCancelled:
      code = Code::kUnavailable;
      break;
    case ErrorKind::kInternal:
      break;
  }
  return {code, error.message, error.param};
}

namespace {

Status judge_lora(const LoraConfig& lora) {
  const auto positive = [&](const std::optional<int64_t>& value, const char* name) -> Status {
    if (!value) return {};
    if (!lora.enabled) return invalid_argument(fmt::format("{} is set, but enable_lora is not.", name), name);
    if (*value < 1) return invalid_argument(fmt::format("{} is {}, but must be at least 1.", name, *value), name);
    return {};
  };
  QUIRE_RETURN_IF_ERROR(positive(lora.max_loras, "max_loras"));
  QUIRE_RETURN_IF_ERROR(positive(lora.max_lora_rank, "max_lora_rank"));
  QUIRE_RETURN_IF_ERROR(positive(lora.max_cpu_loras, "max_cpu_loras"));
  if (lora.max_loras && lora.max_cpu_loras && *lora.max_cpu_loras < *lora.max_loras) {
    return invalid_argument(
        fmt::format("max_cpu_loras {} is less than max_loras {}: a step's adapters must all be in memory.",
                    *lora.max_cpu_loras, *lora.max_loras),
        "max_cpu_loras");
  }
  return {};
}

}  // namespace

Result<EngineConfig> to_engine_config(const LLMOptions& options) {
  EngineConfig config;
  config.offline = true;
  config.model = options.model;
  config.hub = {options.revision, options.download_dir, options.hf_token};
  config.tokenizer_revision = options.tokenizer_revision;
  if (options.generation_config != "auto" && options.generation_config != "vllm") {
    return invalid_argument(
        fmt::format("generation_config is '{}', but must be auto or vllm.", options.generation_config),
        "generation_config");
  }
  config.use_generation_config = options.generation_config == "auto";
  config.model_plugins = options.model_plugins;
  config.ignore_unexpected_weights = options.ignore_unexpected_weights;
  QUIRE_RETURN_IF_ERROR(parse_dtype(options.dtype, "dtype", config.dtype));
  QUIRE_RETURN_IF_ERROR(parse_dtype(options.kv_cache_dtype, "kv_cache_dtype", config.kv_cache_dtype));
  QUIRE_RETURN_IF_ERROR(parse_dtype(options.lora_dtype, "lora_dtype", config.lora.dtype));
  config.quantization = options.quantization;
  config.quantize_lm_head = options.quantize_lm_head;
  config.max_model_len = options.max_model_len;
  config.block_size = options.block_size;
  config.kv_cache_memory_bytes = options.kv_cache_memory_bytes;
  config.num_kv_blocks_override = options.num_gpu_blocks_override;
  config.enable_prefix_caching = options.enable_prefix_caching;
  config.enable_chunked_prefill = options.enable_chunked_prefill;
  config.max_num_batched_tokens = options.max_num_batched_tokens;
  config.target_itl_ms = options.target_itl_ms;
  config.max_num_seqs = options.max_num_seqs;
  config.long_prefill_token_threshold = options.long_prefill_token_threshold;
  if (options.scheduling_policy != "fcfs" && options.scheduling_policy != "priority") {
    return invalid_argument(
        fmt::format("scheduling_policy is '{}', but must be fcfs or priority.", options.scheduling_policy),
        "scheduling_policy");
  }
  config.scheduling_policy =
      options.scheduling_policy == "fcfs" ? SchedulingPolicy::kFcfs : SchedulingPolicy::kPriority;
  config.max_logprobs = options.max_logprobs;
  const std::optional<LogprobsMode> mode = parse_logprobs_mode(options.logprobs_mode);
  if (!mode) {
    return invalid_argument(
        fmt::format("logprobs_mode is '{}', but must be {}.", options.logprobs_mode, kLogprobsModes), "logprobs_mode");
  }
  config.logprobs_mode = *mode;
  config.seed = options.seed;
  config.threads = options.threads;
  config.lora.enabled = options.enable_lora;
  config.lora.max_loras = options.max_loras;
  config.lora.max_lora_rank = options.max_lora_rank;
  config.lora.max_cpu_loras = options.max_cpu_loras;
  QUIRE_RETURN_IF_ERROR(judge_lora(config.lora));
  return config;
}

LLM::RequestOutput to_public(TextOutput&& output, const Tokenizer& tokenizer) {
  LLM::RequestOutput delta;
  if (output.error) delta.error = to_public(*output.error);
  if (!output.prompt_logprobs.empty()) delta.prompt_logprobs.emplace_back(std::nullopt);
  for (const SampledToken& token : output.prompt_logprobs)
    delta.prompt_logprobs.emplace_back(logprob_map(token, tokenizer));
  LLM::CompletionOutput& completion = delta.outputs.emplace_back();
  completion.index = output.choice;
  completion.text = std::move(output.text);
  completion.token_ids = std::move(output.token_ids);
  for (const SampledToken& token : output.tokens) completion.logprobs.push_back(logprob_map(token, tokenizer));
  completion.finish_reason = finish_reason_name(output.finish_reason);
  if (output.stop_string) completion.stop_reason = std::move(*output.stop_string);
  if (output.stop_token_id) completion.stop_reason = *output.stop_token_id;
  if (output.finish_reason == FinishReason::kRepetition) completion.stop_reason = std::string(kRepetitionDetected);
  const RequestUsage& usage = output.usage;
  LLM::Metrics& metrics = delta.metrics;
  metrics.prompt_tokens = usage.prompt_tokens;
  metrics.completion_tokens = usage.completion_tokens;
  metrics.cached_tokens = usage.cached_tokens;
  metrics.preemptions = usage.preemptions;
  if (usage.completion_tokens > 0) {
    metrics.queue_time = usage.scheduled_time - usage.arrival_time;
    metrics.time_to_first_token = usage.first_token_time - usage.arrival_time;
    metrics.e2e_latency = usage.last_token_time - usage.arrival_time;
  }
  return delta;
}

void accumulate(LLM::RequestOutput& total, LLM::RequestOutput& delta) {
  append(total.prompt_logprobs, delta.prompt_logprobs);
  const LLM::CompletionOutput& from = delta.outputs.front();
  LLM::CompletionOutput& to = total.outputs[static_cast<size_t>(from.index)];
  to.text += from.text;
  append(to.token_ids, from.token_ids);
  append(to.logprobs, from.logprobs);
  to.finish_reason = from.finish_reason;
  to.stop_reason = from.stop_reason;
  const auto running = [](const LLM::CompletionOutput& output) { return output.finish_reason.empty(); };
  const bool last = !from.finish_reason.empty() && std::none_of(total.outputs.begin(), total.outputs.end(), running);
  total.finished = delta.finished = last;
  if (delta.error) total.error = delta.error;
  // The first choice computes the prompt; the others find its pages.
  LLM::Metrics metrics = from.index == 0 || total.metrics.prompt_tokens == 0 ? delta.metrics : total.metrics;
  metrics.completion_tokens = total.metrics.completion_tokens + static_cast<int64_t>(from.token_ids.size());
  metrics.preemptions = std::max(total.metrics.preemptions, delta.metrics.preemptions);
  metrics.e2e_latency = std::max(total.metrics.e2e_latency, delta.metrics.e2e_latency);
  total.metrics = delta.metrics = metrics;
}

}  // namespace quire
