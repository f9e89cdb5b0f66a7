// AsyncLlm::create: from a path to a running engine.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <future>
#include <memory>
#include <utility>

#include "api/adapter_folder.h"
#include "api/async_llm.h"
#include "api/engine_adapter_memory.h"
#include "api/load_progress.h"
#include "api/locate.h"
#include "api/model_trial.h"
#include "checkpoint/weight_source.h"
#include "engine/create_executor.h"
#include "models/model_plugin.h"
#include "models/registry.h"
#include "ops/cpu/kernel_table.h"

namespace quire {
namespace {

/// The checkpoint's own sampling defaults (generation_config.json, a GGUF file's general.sampling) must be usable:
/// every request that says nothing gets them.
Status judge_defaults(const GenerationConfig& generation) {
  constexpr SamplingLimits kNoLimits{-1, 0};
  if (const Status status = validate(sampling_defaults(generation), kNoLimits); !status.ok()) {
    return invalid_argument("The model's generation config: " + status.error().message, status.error().param);
  }
  return {};
}

Result<std::string> locate_tokenizer(const std::string& name, const EngineConfig& config) {
  if (name.empty()) return name;
  HubOptions hub = config.hub;
  hub.revision = config.tokenizer_revision;
  QUIRE_ASSIGN_OR_RETURN(std::string path, locate(name, HubContent::kTokenizer, hub));
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path;
  return not_found(fmt::format("The tokenizer's path '{}' does not exist.", name), "tokenizer");
}

Result<std::unique_ptr<AsyncLlm>> load(EngineConfig config, const std::string& chat_template,
                                       const std::string& tokenizer) {
  if (config.model.empty())
    return invalid_argument("No model was given: name a Hugging Face folder or a .gguf file.", "model");
  QUIRE_RETURN_IF_ERROR(AdapterFolder(config.lora.folder).judge());
  QUIRE_ASSIGN_OR_RETURN(const std::string tokenizer_path, locate_tokenizer(tokenizer, config));
  QUIRE_RETURN_IF_ERROR(load_model_plugins(config.model_plugins));
  ops::cpu::kernels();  // judges QUIRE_CPU_ISA here: a worker of the pool could not report it
  QUIRE_ASSIGN_OR_RETURN(config.model_path, locate(config.model, HubContent::kModel, config.hub));
  const std::filesystem::path text_source = tokenizer_path.empty() ? config.path() : tokenizer_path;
  QUIRE_ASSIGN_OR_RETURN(Checkpoint checkpoint, open_checkpoint(config.path()));
  AsyncLlmParts parts;
  parts.config = config;
  parts.model = checkpoint.config;
  // Its end tokens still count: they are among the model's own.
  if (!config.use_generation_config) parts.model.generation = {};
  QUIRE_RETURN_IF_ERROR(judge_defaults(parts.model.generation));

  // A large tokenizer takes as long to build as a small model's weights.
  std::future<Result<TextAssets>> text =
      std::async(std::launch::async, [&] { return load_text_assets(text_source, chat_template); });
  LoadProgress progress;
  Result<LoadedExecutor> loaded = create_executor(config, std::move(checkpoint),
                                                  [&](int64_t done, int64_t total) { progress.update(done, total); });
  progress.end();
  QUIRE_ASSIGN_OR_RETURN(parts.text, text.get());
  if (!loaded.ok()) return loaded.error();
  if (!loaded->kv_summary.empty()) spdlog::info("{}", loaded->kv_summary);
  parts.limits = loaded->limits;
  parts.executor = std::move(loaded->executor);
  parts.adapter_memory = [lora = config.lora](Engine& engine) { return make_engine_adapter_memory(engine, lora); };
  const bool from_plugin = ModelRegistry::instance().is_from_plugin(parts.model.architecture);
  std::unique_ptr<AsyncLlm> llm = AsyncLlm::from_parts(std::move(parts));
  if (from_plugin) QUIRE_RETURN_IF_ERROR(try_model(*llm));
  return llm;
}

}  // namespace

Result<std::unique_ptr<AsyncLlm>> AsyncLlm::create(const EngineConfig& config, const std::string& chat_template,
                                                   const std::string& tokenizer) {
  try {
    return load(config, chat_template, tokenizer);
  } catch (const StartupError& error) {
    return invalid_argument(error.what());
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::kUnavailable, fmt::format("There is not enough memory to load {}.", config.model), "model"};
  } catch (const std::exception& error) {
    return internal_error(fmt::format("Loading {} failed: {}.", config.model, error.what()));
  } catch (...) {
    return internal_error(
        fmt::format("Loading {} failed: something was thrown that is no std::exception.", config.model));
  }
}

}  // namespace quire
