#include "cli/local_model.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/check.h"
#include "base/thread_pool.h"
#include "engine/ranks/mpi_ranks.h"
#include "ops/cpu/kernel_table.h"

namespace quire::cli {
namespace {

std::string type_or(const std::optional<DType>& type, const std::string& otherwise) {
  return type ? std::string(dtype_name(*type)) : otherwise;
}

}  // namespace

std::vector<std::string> describe_start(const AsyncLlm& llm) {
  const EngineConfig& config = llm.engine_config();
  const EngineLimits& limits = llm.limits();
  const ModelConfig& model = llm.model_config();
  const int threads = config.threads > 0 ? config.threads : default_compute_threads();
  std::vector<std::string> lines;
  lines.push_back(fmt::format("Model {} ({}), weights {}, quantization {}", config.model, model.architecture,
                              type_or(config.dtype, fmt::format("auto (checkpoint: {})", dtype_name(model.dtype))),
                              config.quantization));
  lines.push_back(fmt::format("CPU kernels {}, {} compute threads", ops::cpu::kernels().name, threads));
  lines.push_back(fmt::format("KV cache {}: {} blocks of {} tokens, room for {} tokens; prefix caching {}",
                              type_or(config.kv_cache_dtype, "auto"), limits.num_blocks, limits.block_size,
                              limits.kv_cache_tokens, config.enable_prefix_caching ? "on" : "off"));
  lines.push_back(fmt::format("Limits: context {} tokens, {} tokens in a step, {} requests at once",
                              limits.max_model_len, limits.max_num_batched_tokens, limits.max_num_seqs));
  lines.push_back(fmt::format("Chunked prefill {}, scheduling {}", config.enable_chunked_prefill ? "on" : "off",
                              config.scheduling_policy == SchedulingPolicy::kFcfs ? "fcfs" : "priority"));
  return lines;
}

void serve_first_rank(const EngineConfig& config) {
  const std::optional<ParallelRank> job = mpi_place();
  if (!job) return;
  // A rank that took itself for the only one would serve by itself, and the others wait for it.
  const Status fits = check_mpi_job(config, *job);
  if (!fits.ok()) throw StartupError(fits.error().message);
  if (job->rank == 0) return;
  spdlog::set_level(spdlog::level::err);
  throw EndOfProgram{serve_mpi_rank()};
}

std::unique_ptr<AsyncLlm> start_local_model(const EngineArguments& arguments, bool log) {
  serve_first_rank(arguments.config);
  auto llm = AsyncLlm::create(arguments.config, arguments.chat_template, arguments.tokenizer);
  if (!llm.ok()) throw StartupError(llm.error().message);
  if (log) {
    for (const std::string& line : describe_start(**llm)) spdlog::info(line);
  }
  return std::move(llm).value();
}

}  // namespace quire::cli
