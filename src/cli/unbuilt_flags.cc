// The tables are long because vLLM's list of flags is; one row each.
#include "cli/unbuilt_flags.h"

#include <fmt/format.h>

namespace quire::cli {
namespace {

constexpr std::string_view kOneDivision =
    "is not built: a model is divided by --tensor-parallel-size and --pipeline-parallel-size";
constexpr std::string_view kMpi =
    "is not used: MPI starts ranks on several machines, so for two with one rank each run mpirun -np 2 --host A,B "
    "quire "
    "serve MODEL --tensor-parallel-size 2";
constexpr std::string_view kNoSpeculation = "is not built: speculative decoding is missing";
constexpr std::string_view kNoTransfer = "is not built: KV pages stay in this process";
constexpr std::string_view kNoTools = "is not built: tool calls and reasoning are not parsed";
constexpr std::string_view kNoOverride = "is not built: edit the model's file instead";

const UnbuiltFlag kEngineFlags[] = {
    {"--data-parallel-size", true, {"1"}, kOneDivision},
    {"--decode-context-parallel-size", true, {"1"}, kOneDivision},
    {"--prefill-context-parallel-size", true, {"1"}, kOneDivision},
    {"--enable-expert-parallel", false, {}, kOneDivision},
    {"--distributed-executor-backend",
     true,
     {"uni", "mp"},
     "is not built for that value: ranks are processes of this machine"},
    {"--nnodes", true, {"1"}, kMpi},
    {"--node-rank", true, {"0"}, kMpi},
    {"--master-addr", true, {"127.0.0.1"}, kMpi},
    {"--master-port", true, {"29501"}, kMpi},
    {"--headless", false, {}, kMpi},
    {"--lora-target-modules", true, {}, "is not built: an adapter is used on every module that it has weights for"},
    {"--default-mm-loras", true, {}, "does not apply: the models are text only"},
    {"--enable-tower-connector-lora", false, {}, "does not apply: the models are text only"},
    {"--speculative-config", true, {}, kNoSpeculation},
    {"--spec-method", true, {}, kNoSpeculation},
    {"--spec-model", true, {}, kNoSpeculation},
    {"--spec-tokens", true, {}, kNoSpeculation},
    {"--load-format",
     true,
     {"auto", "safetensors", "gguf"},
     "is not built for that value: safetensors and GGUF files are recognised by themselves"},
    {"--gpu-memory-utilization",
     true,
     {},
     "does not apply: quire computes on the CPU, so give the cache's size with --kv-cache-memory-bytes"},
    {"--cpu-offload-gb", true, {"0"}, "does not apply: quire computes on the CPU"},
    {"--swap-space", true, {"0"}, "does not apply: preempted requests are recomputed, not swapped"},
    {"--device", true, {"cpu", "auto"}, "is not built for that value: quire computes on the CPU"},
    {"--enforce-eager", false, {"true"}, ""},
    {"--optimization-level",
     true,
     {"0", "1", "2", "3", "O0", "O1", "O2", "O3"},
     "takes 0 to 3, and changes nothing here"},
    {"--compilation-config", true, {}, "does not apply: quire compiles nothing at run time"},
    {"--attention-backend", true, {"auto", "CPU_ATTN"}, "does not apply: there is one attention kernel for each ISA"},
    {"--hf-overrides", true, {"{}"}, kNoOverride},
    {"--override-generation-config", true, {"{}"}, kNoOverride},
    {"--trust-remote-code", false, {}, "does not apply: quire runs no code from a checkpoint"},
    {"--code-revision", true, {}, "does not apply: quire runs no code from a checkpoint"},
    {"--tokenizer-mode",
     true,
     {"auto", "hf"},
     "is not built for that value: tokenizer.json is read as Hugging Face reads it"},
    {"--skip-tokenizer-init", false, {}, "is not built: the tokenizer is always loaded"},
    {"--model-impl", true, {"auto", "vllm"}, "is not built for that value: quire has its own models"},
    {"--runner", true, {"auto", "generate"}, "is not built for that value: quire generates text"},
    {"--convert", true, {"auto", "none"}, "is not built for that value: quire generates text"},
    {"--task", true, {"auto", "generate"}, "is not built for that value: quire generates text"},
    {"--logits-processors", true, {}, "is not built: quire loads no Python"},
    {"--enable-prompt-embeds", false, {}, "is not built: prompts are text or token ids"},
    {"--enable-sleep-mode", false, {}, "is not built: stop the server to free its memory"},
    {"--prefix-caching-hash-algo",
     true,
     {"sha256", "sha256_cbor", "xxhash", "xxhash_cbor"},
     "does not apply: prefixes are compared token by token"},
    {"--kv-offloading-size", true, {"0"}, kNoTransfer},
    {"--kv-transfer-config", true, {}, kNoTransfer},
    {"--kv-events-config", true, {}, kNoTransfer},
    {"--max-num-partial-prefills", true, {"1"}, "is gone from vLLM too: see --long-prefill-token-threshold"},
    {"--max-long-partial-prefills", true, {"1"}, "is gone from vLLM too: see --long-prefill-token-threshold"},
    {"--async-scheduling", false, {}, "is not built: each step is scheduled after the last one"},
    {"--no-async-scheduling", false, {"true"}, ""},
    {"--watermark", true, {"0", "0.0"}, "is not built: no share of the cache is kept free"},
    {"--stream-interval", true, {"1"}, "is not built: every token is sent as it comes"},
    {"--performance-mode", true, {"balanced"}, "is not built: set --max-num-batched-tokens and --max-num-seqs"},
    {"--structured-outputs-config", true, {}, "is not built: structured outputs are missing"},
    {"--guided-decoding-backend", true, {"auto"}, "is not built: structured outputs are missing"},
    {"--limit-mm-per-prompt", true, {}, "does not apply: the models are text only"},
    {"--config", true, {}, "is not built: give the flags on the command line"},
};

const UnbuiltFlag kServerFlags[] = {
    {"--uds", true, {}, "is not built: the server listens on --host and --port"},
    {"--enable-ssl-refresh", false, {}, "is not built: start the server again with the new certificate"},
    {"--ssl-ciphers", true, {}, "is not built: ciphers are those of OpenSSL's configuration"},
    {"--api-server-count", true, {"1"}, "is not built: one process serves"},
    {"--middleware", true, {}, "is not built: quire loads no Python"},
    {"--root-path", true, {}, "is not built: let the proxy strip the prefix"},
    {"--enable-log-requests", false, {}, "is not built: single requests are not logged"},
    {"--enable-log-outputs", false, {}, "is not built: outputs are not logged"},
    {"--max-log-len", true, {}, "does not apply: prompts are not logged"},
    {"--chat-template-content-format",
     true,
     {"auto", "string", "openai"},
     "takes auto, string or openai, and changes nothing here"},
    {"--default-chat-template-kwargs", true, {"{}"}, "is not built: send chat_template_kwargs with the request"},
    {"--enable-auto-tool-choice", false, {}, kNoTools},
    {"--tool-call-parser", true, {}, kNoTools},
    {"--tool-parser-plugin", true, {}, kNoTools},
    {"--reasoning-parser", true, {}, kNoTools},
    {"--response-role", true, {"assistant"}, "is not built for that value: the role is assistant"},
    {"--return-tokens-as-token-ids", false, {}, "is not built: ask for return_token_ids in the request"},
    {"--otlp-traces-endpoint", true, {}, "is not built: /metrics is what there is to watch"},
    {"--grpc", false, {}, "is not built: the server speaks HTTP"},
    {"--disable-frontend-multiprocessing", false, {"true"}, ""},
    {"--disable-uvicorn-access-log", false, {"true"}, ""},
};

void add(FlagSet& flags, std::span<const UnbuiltFlag> table) {
  static bool ignored = false;
  flags.group("");
  for (const UnbuiltFlag& row : table) {
    const std::string name(row.name);
    if (!row.takes_value) {
      if (row.reason.empty()) {
        flags.flag(name, "", &ignored);
      } else {
        flags.refused(name, fmt::format("{} {}.", name, row.reason));
      }
      continue;
    }
    flags.value(name, "", "", [&row, name](const std::string& text) -> Status {
      for (const std::string_view value : row.neutral) {
        if (value == text) return {};
      }
      throw FlagError(fmt::format("{} {} {}.", name, text, row.reason));
    });
  }
}

}  // namespace

std::span<const UnbuiltFlag> unbuilt_engine_flags() { return kEngineFlags; }
std::span<const UnbuiltFlag> unbuilt_server_flags() { return kServerFlags; }

void add_unbuilt_engine_flags(FlagSet& flags) { add(flags, kEngineFlags); }
void add_unbuilt_server_flags(FlagSet& flags) { add(flags, kServerFlags); }

}  // namespace quire::cli
