#include "cli/bench/offline_arguments.h"

#include <fmt/format.h>

#include "cli/adapter_flags.h"
#include "cli/bench/offline_load.h"
#include "cli/local_model.h"

namespace quire::cli {

void add_offline_flags(FlagSet& flags, OfflineArguments& a) {
  a.engine.config.offline = true;
  flags.group("Benchmark")
      .value("--input-len", "N", fmt::format("Prompt tokens (default: {})", a.shape.input_len),
             into_size(&a.shape.input_len, 1))
      .value("--output-len", "N", fmt::format("Output tokens (default: {})", a.shape.output_len),
             into_size(&a.shape.output_len, 1))
      .value("--temperature", "T", "Sampling temperature, 0: greedy (default: 0)", into(&a.temperature, 0, 2))
      .value("--output-json", "PATH", "Write the result as JSON too", into(&a.output_json))
      .flag("--profile", "Tell where the time goes, rank by rank", &a.profile)
      .flag("--disable-tqdm", "No progress bar", &a.disable_progress);
  flags.group("Model").value("--model", "PATH", "A Hugging Face folder, a .gguf file, or ORG/NAME of the hub",
                             into(&a.engine.config.model));
  add_engine_flags(flags, a.engine);
  flags.group("LoRA").list(
      "--lora", "PATH", "Folders, or ORG/ADAPTER of the hub, of LoRA adapters that the prompts take in turn", &a.lora);
  add_log_flags(flags, a.log);
}

void require_model(const EngineArguments& arguments) {
  if (arguments.config.model.empty()) throw FlagError("The benchmark needs a model: give one with --model PATH.");
}

std::unique_ptr<AsyncLlm> start_offline(OfflineArguments& a) {
  require_model(a.engine);
  if (!a.lora.empty()) a.engine.config.lora.enabled = true;
  check_engine_arguments(a.engine);
  const LogSetup log(a.log);
  std::unique_ptr<AsyncLlm> llm = start_local_model(a.engine, true);
  const int64_t length = a.shape.prefix_len + a.shape.input_len + a.shape.output_len;
  if (length > llm->limits().max_model_len) {
    throw StartupError(fmt::format("--input-len and --output-len make {} tokens, but the model's context has {}",
                                   length, llm->limits().max_model_len));
  }
  a.adapters = load_adapters(*llm, specs_of_paths(a.lora));
  draw_from_vocabulary(a.shape, llm->limits().vocab_size);
  return llm;
}

}  // namespace quire::cli
