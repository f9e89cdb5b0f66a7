#include "lora/adapter_files.h"

#include <algorithm>

#include "checkpoint/json_document.h"
#include "checkpoint/safetensors_source.h"
#include "lora/adapter_config.h"
#include "lora/adapter_modules.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStem = "adapter_model";
constexpr size_t kMaxConfigMebibytes = 8;

Status check_folder(const fs::path& folder) {
  std::error_code ignored;
  if (folder.empty() || !fs::exists(folder, ignored)) {
    return not_found("adapter path '" + folder.string() +
                     "' is not found; give the folder that has adapter_config.json");
  }
  if (!fs::is_directory(folder, ignored)) {
    return invalid_argument("adapter path " + folder.string() + " is a file; give the folder that has it and " +
                            "adapter_config.json");
  }
  if (!fs::exists(folder / "adapter_config.json", ignored)) {
    return not_found(folder.string() + " has no adapter_config.json; it is not a PEFT adapter's folder");
  }
  if (has_safetensors(folder, kStem)) return {};
  for (const char* pickle : {"adapter_model.bin", "adapter_model.pt", "adapter_model.pth"}) {
    if (!fs::exists(folder / pickle, ignored)) continue;
    return unsupported(folder.string() + " has its weights as the pickle " + pickle +
                       " only, which is not read; convert it with PEFT: PeftModel.from_pretrained(base_model, folder)"
                       ".save_pretrained(new_folder)");
  }
  return not_found(folder.string() + " has neither adapter_model.safetensors nor adapter_model.safetensors.index.json");
}

}  // namespace

std::vector<const WeightInfo*> AdapterModule::tensors() const {
  std::vector<const WeightInfo*> all = {a, b, magnitude, lora_bias, bias, weight, token_rows, base_copy};
  std::erase(all, nullptr);
  return all;
}

Result<std::shared_ptr<const AdapterFiles>> AdapterFiles::open(const fs::path& folder) {
  QUIRE_RETURN_IF_ERROR(check_folder(folder));
  const fs::path config_path = folder / "adapter_config.json";
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_json_text(config_path, kMaxConfigMebibytes));
  // A trainer may write the folder again while it is read: a copy cannot vanish under the reader.
  QUIRE_ASSIGN_OR_RETURN(auto tensors, open_safetensors_folder(folder, kStem, &SafetensorsFile::copy));
  return parse(text, config_path.string(), std::move(tensors));
}

Result<std::shared_ptr<const AdapterFiles>> AdapterFiles::parse(std::string_view config_text,
                                                                const std::string& config_where,
                                                                std::unique_ptr<WeightSource> tensors) {
  QUIRE_ASSIGN_OR_RETURN(const AdapterConfig config, AdapterConfig::parse(config_text, config_where));
  const std::shared_ptr<AdapterFiles> files(new AdapterFiles());
  QUIRE_ASSIGN_OR_RETURN(files->modules_, read_adapter_modules(config, *tensors));
  if (std::ranges::none_of(files->modules_, &AdapterModule::changes_something)) {
    return invalid_argument(tensors->description() + " has no tensor that changes a module; it is an empty adapter");
  }
  files->folder_ = tensors->description();
  files->base_model_name_ = config.base_model_name;
  files->config_text_ = config_text;
  files->config_where_ = config_where;
  files->tensors_ = std::move(tensors);
  return std::shared_ptr<const AdapterFiles>(files);
}

int64_t AdapterFiles::max_rank() const {
  int64_t rank = 0;
  for (const AdapterModule& module : modules_) rank = std::max(rank, module.rank);
  return rank;
}

int64_t AdapterFiles::stored_bytes() const {
  int64_t bytes = 0;
  for (const WeightInfo& tensor : tensors_->tensors()) bytes += static_cast<int64_t>(tensor.stored_bytes);
  return bytes;
}

}  // namespace quire
