#include "api/engine_adapter_memory.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <system_error>

#include "hub/hub_id.h"
#include "lora/adapter_files.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

class EngineAdapterMemory final : public AdapterMemory {
 public:
  EngineAdapterMemory(Engine& engine, const LoraConfig& config) : engine_(engine), max_rank_(config.max_lora_rank) {}

  Result<AdapterSummary> load(uint64_t id, const fs::path& folder) override {
    try {
      QUIRE_RETURN_IF_ERROR(judge_path(folder));
      QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<const AdapterFiles> files, AdapterFiles::open(folder));
      QUIRE_RETURN_IF_ERROR(judge_rank(*files));
      return engine_.load_adapter(id, *files);
    } catch (const std::bad_alloc&) {
      return Error{ErrorKind::kUnavailable,
                   fmt::format("There is not enough memory to load the LoRA adapter {}.", folder.string()),
                   {}};
    } catch (const std::exception& fault) {
      return internal_error(fmt::format("Loading the LoRA adapter {} failed: {}.", folder.string(), fault.what()));
    }
  }

  void remove(uint64_t id) override { engine_.remove_adapter(id); }

 private:
  static Status judge_path(const fs::path& folder) {
    std::error_code error;
    if (!fs::exists(folder, error)) {
      const bool of_hub = parse_hub_id(folder.string()).has_value();
      return not_found(fmt::format("There is no LoRA adapter at {}: give the path of a PEFT folder{}.", folder.string(),
                                   of_hub ? ", such as 'quire pull' prints for an adapter of the hub" : ""),
                       "lora_path");
    }
    if (fs::is_directory(folder, error)) return {};
    return invalid_argument(fmt::format("{} is no folder: a LoRA adapter is a PEFT folder with adapter_config.json and "
                                        "adapter_model.safetensors.",
                                        folder.string()),
                            "lora_path");
  }

  Status judge_rank(const AdapterFiles& files) const {
    if (!max_rank_ || files.max_rank() <= *max_rank_) return {};
    return invalid_argument(
        fmt::format("The LoRA adapter {} has rank {}, but --max-lora-rank is {}: start the server with --max-lora-rank "
                    "{} or without a limit.",
                    files.folder().string(), files.max_rank(), *max_rank_, files.max_rank()),
        "lora_path");
  }

  Engine& engine_;
  const std::optional<int64_t> max_rank_;
};

}  // namespace

std::unique_ptr<AdapterMemory> make_engine_adapter_memory(Engine& engine, const LoraConfig& config) {
  return std::make_unique<EngineAdapterMemory>(engine, config);
}

}  // namespace quire
