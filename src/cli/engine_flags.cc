#include "cli/engine_flags.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "cli/adapter_flags.h"
#include "cli/flag_values.h"
#include "cli/hub_flags.h"
#include "cli/unbuilt_flags.h"
#include "distributed/shm/shared_segment.h"

namespace quire::cli {
namespace {

void add_model_flags(FlagSet& flags, EngineArguments& arguments) {
  EngineConfig& config = arguments.config;
  flags.group("Model")
      .value("--tokenizer", "PATH", "Folder, .gguf file or ORG/NAME with the tokenizer (default: the model's own)",
             into(&arguments.tokenizer))
      .value("--tokenizer-revision", "NAME", "Branch, tag or commit of a --tokenizer from the hub (default: main)",
             into(&config.tokenizer_revision))
      .value("--chat-template", "PATH|TEXT",
             "Jinja chat template, a file or the text itself (default: the model's own)",
             into(&arguments.chat_template))
      .value("--generation-config", "auto|vllm",
             "auto: sampling defaults from the model's generation_config.json or GGUF metadata; vllm: none from there "
             "(default: auto)",
             [&config](const std::string& text) -> Status {
               std::string choice;
               QUIRE_RETURN_IF_ERROR(into_choice(&choice, {"auto", "vllm"})(text));
               config.use_generation_config = choice == "auto";
               return {};
             })
      .repeatable(
          "--model-plugin", "PATH|ARCHITECTURE=PATH",
          "Shared library with models of your own, repeatable; with an architecture's name it is loaded only for a "
          "checkpoint of that architecture",
          &config.model_plugins)
      .value(
          "--ignore-unexpected-weights", "REGEX",
          "Pass over the checkpoint's tensors that the model has no use for and whose name the expression matches in "
          "any part (default: refuse them)",
          into(&config.ignore_unexpected_weights))
      .value("--dtype", "TYPE",
             "Storage type of unquantized weights: auto (the file's own), float32 or float, bfloat16, float16 or half "
             "(default: auto)",
             into(&config.dtype))
      .value(
          "--quantization", "METHOD",
          "How weights are multiplied, -q of serve and bench: none, int8, int4, gguf (as the file stores them), auto "
          "(gguf for such a file without --dtype, else none) (default: auto)",
          [&config](const std::string& text) -> Status {
            const std::string name = text == "None" ? "none" : text;
            for (const char* const known : {"auto", "none", "int8", "int4", "gguf"}) {
              if (name != known) continue;
              config.quantization = name;
              return {};
            }
            return invalid_argument(fmt::format("'{}' is not supported: {}", text, kQuantizations));
          })
      .flag("--quantize-lm-head",
            "With int8 and int4: embedding and output head too (default: they are kept as --dtype)",
            &config.quantize_lm_head)
      .value(
          "--max-model-len", "N|auto",
          "Longest prompt and output together; 1k is 1,000, 1K is 1,024, auto or -1 is what the cache holds (default: "
          "the model's context)",
          [&config](const std::string& text) -> Status {
            QUIRE_ASSIGN_OR_RETURN(config.max_model_len, parse_size_or_auto(text));
            return {};
          })
      .value("--max-logprobs", "N", "Most logprobs a request may ask for, -1 for no cap (default: 20)",
             into(&config.max_logprobs, -1))
      .value("--logprobs-mode", "MODE",
             "What logprobs are: raw_logprobs, processed_logprobs, raw_logits or processed_logits (default: "
             "raw_logprobs)",
             [&config](const std::string& text) -> Status {
               const std::optional<LogprobsMode> mode = parse_logprobs_mode(text);
               if (!mode) return invalid_argument(fmt::format("'{}' is not {}", text, kLogprobsModes));
               config.logprobs_mode = *mode;
               return {};
             })
      .value("--seed", "N", "Seed of the engine (default: 0)", into(&config.seed, 0))
      .value("--threads", "N",
             "Compute threads, of all ranks together (default: the allowed CPUs, cut to the cgroup's quota)",
             into(&config.threads, 1, 4096))
      .value("--tensor-parallel-size", "N",
             "Divide the model over N ranks, processes of this machine with a share of the threads each; -tp for short "
             "(default: 1)",
             into(&config.tensor_parallel_size, 1, SharedSegment::kMaxRanks))
      .value("--pipeline-parallel-size", "N",
             "Divide the model's layers over N stages of such ranks, which take turns; -pp for short (default: 1)",
             into(&config.pipeline_parallel_size, 1, SharedSegment::kMaxRanks))
      .value("--pipeline-layer-partition", "N,N,...",
             "Layers of each stage, which add up to the model's; QUIRE_PP_LAYER_PARTITION says the same (default: "
             "evenly, one more for some stages before the last)",
             [&config](const std::string& text) -> Status {
               QUIRE_ASSIGN_OR_RETURN(config.pipeline_layer_partition, parse_whole_numbers(text, 1));
               return {};
             })
      .value(
          "--max-rank-restarts", "N",
          "How often within 10 minutes failed ranks are started again; one failure more ends the server (default: 3)",
          into(&config.max_rank_restarts, 0, 1000));
}

void add_cache_flags(FlagSet& flags, EngineConfig& config) {
  flags.group("KV cache")
      .value("--block-size", "N", "Tokens in a block, a multiple of 16 (default: 16)",
             [&config](const std::string& text) -> Status {
               QUIRE_ASSIGN_OR_RETURN(config.block_size, parse_whole_number(text, 1));
               if (config.block_size % 16 == 0) return {};
               return invalid_argument(fmt::format("{} is not a multiple of 16", config.block_size));
             })
      .value(
          "--kv-cache-memory-bytes", "SIZE",
          "Memory for the cache, with suffix (4G); touched only as used (default: a share of what the machine allows)",
          into_size(&config.kv_cache_memory_bytes, 1))
      .value("--num-gpu-blocks-override", "N", "Blocks of the cache, instead of the memory's worth (for tests)",
             into(&config.num_kv_blocks_override, 1))
      .value("--kv-cache-dtype", "TYPE",
             "Storage type of keys and values: auto (float32 for float32 weights, else bfloat16), float32, bfloat16, "
             "float16 (default: auto)",
             into(&config.kv_cache_dtype))
      .toggle("--enable-prefix-caching", "Share the pages of equal prompt beginnings (default: on)",
              &config.enable_prefix_caching);
}

void add_scheduler_flags(FlagSet& flags, EngineConfig& config) {
  const std::string tokens_default = config.offline ? "4096" : "2048";
  const std::string seqs_default = config.offline ? "256" : "128";
  flags.group("Scheduler")
      .toggle("--enable-chunked-prefill", "Let a prompt be computed over several steps, among decodes (default: on)",
              &config.enable_chunked_prefill)
      .value("--max-num-batched-tokens", "auto|N",
             "Most tokens computed in one step; auto: " + tokens_default +
                 ", while requests decode what --target-itl-ms allows; without chunked prefill room for a whole prompt "
                 "(default: auto)",
             [&config](const std::string& text) -> Status {
               config.max_num_batched_tokens.reset();
               return text == "auto" ? Status{} : into_size(&config.max_num_batched_tokens, 1)(text);
             })
      .value("--target-itl-ms", "N",
             "Milliseconds that --max-num-batched-tokens auto keeps a step to while requests decode, with at least 32 "
             "prompt tokens; no effect with a number there or without chunked prefill (default: 100)",
             into(&config.target_itl_ms, 1, 3600000))
      .value("--max-num-seqs", "N", "Most requests that run at once (default: " + seqs_default + ")",
             into_size(&config.max_num_seqs, 1))
      .value(
          "--long-prefill-token-threshold", "N",
          "Prompts longer than this together take at most half of the prefill budget while shorter ones wait; 0: those "
          "longer than the largest step (default: 0)",
          into_size(&config.long_prefill_token_threshold, 0))
      .value("--scheduling-policy", "fcfs|priority",
             "fcfs: first come, first served; priority: lower 'priority' of a request first (default: fcfs)",
             [&config](const std::string& text) -> Status {
               std::string choice;
               QUIRE_RETURN_IF_ERROR(into_choice(&choice, {"fcfs", "priority"})(text));
               config.scheduling_policy = choice == "fcfs" ? SchedulingPolicy::kFcfs : SchedulingPolicy::kPriority;
               return {};
             });
}

}  // namespace

void add_engine_flags(FlagSet& flags, EngineArguments& arguments) {
  add_model_flags(flags, arguments);
  add_hub_flags(flags, arguments.config.hub);
  add_cache_flags(flags, arguments.config);
  add_scheduler_flags(flags, arguments.config);
  add_lora_engine_flags(flags, arguments.config.lora);
  add_unbuilt_engine_flags(flags);
}

void check_engine_arguments(EngineArguments& arguments) {
  const char* const partition = std::getenv("QUIRE_PP_LAYER_PARTITION");
  if (partition != nullptr && arguments.config.pipeline_layer_partition.empty()) {
    auto layers = parse_whole_numbers(partition, 1);
    if (!layers.ok()) throw FlagError("QUIRE_PP_LAYER_PARTITION: " + layers.error().message + ".");
    arguments.config.pipeline_layer_partition = std::move(*layers);
  }
  const EngineConfig& config = arguments.config;
  check_lora_arguments(config.lora);
  if (config.max_num_batched_tokens && config.max_num_seqs && *config.max_num_batched_tokens < *config.max_num_seqs) {
    throw FlagError(fmt::format(
        "--max-num-batched-tokens {} is less than --max-num-seqs {}: each running request needs a token of every step.",
        *config.max_num_batched_tokens, *config.max_num_seqs));
  }
  if (config.max_model_len && *config.max_model_len > 0) {
    const int64_t length = *config.max_model_len;
    if (!config.enable_chunked_prefill && config.max_num_batched_tokens && *config.max_num_batched_tokens < length) {
      throw FlagError(
          fmt::format("--no-enable-chunked-prefill needs --max-num-batched-tokens of at least --max-model-len: {} is "
                      "less than {}.",
                      *config.max_num_batched_tokens, length));
    }
    if (config.long_prefill_token_threshold > length) {
      throw FlagError(fmt::format("--long-prefill-token-threshold {} is more than --max-model-len {}.",
                                  config.long_prefill_token_threshold, length));
    }
  }
  if (config.long_prefill_token_threshold > 0 && !config.enable_chunked_prefill) {
    throw FlagError("--long-prefill-token-threshold has no meaning with --no-enable-chunked-prefill.");
  }
}

}  // namespace quire::cli
