// Finds out what a path holds and opens it: a folder in Hugging Face's layout, a .gguf file, or a folder with exactly
// one.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>

#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_source.h"
#include "checkpoint/model_config_json.h"
#include "checkpoint/quantized_checkpoint.h"
#include "checkpoint/safetensors_source.h"
#include "checkpoint/tied_head.h"
#include "checkpoint/weight_source.h"
#include "checkpoint/wrong_file.h"

namespace quire {

int64_t WeightInfo::cols() const {
  if (shape.empty()) return 1;
  if (shape.size() == 1) return shape[0];
  int64_t product = 1;
  for (size_t i = 1; i < shape.size(); ++i) product *= shape[i];
  return product;
}

namespace {

namespace fs = std::filesystem;

/// Names of the folder's files that end in `extension`, sorted.
std::vector<std::string> files_with_extension(const fs::path& folder, std::string_view extension) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == extension) names.push_back(it->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

Result<Checkpoint> open_gguf(const fs::path& path) {
  QUIRE_ASSIGN_OR_RETURN(GgufFile file, GgufFile::open(path));
  QUIRE_ASSIGN_OR_RETURN(JudgedConfig judged, gguf_model_config(file));
  for (const std::string& warning : judged.warnings) spdlog::warn("{}", warning);
  Checkpoint checkpoint{path, true, std::move(judged.config), nullptr};
  QUIRE_ASSIGN_OR_RETURN(checkpoint.weights, make_gguf_source(std::move(file), checkpoint.config));
  return checkpoint;
}

/// The float type of most elements: what dtype auto means where the config does not say.
DType most_common_dtype(const WeightSource& source) {
  std::map<std::string, int64_t> elements;
  for (const WeightInfo& weight : source.tensors()) elements[weight.stored_type] += weight.rows() * weight.cols();
  const auto count = [&](const char* type) { return elements[type]; };
  if (count("BF16") > 0 && count("BF16") >= count("F16") && count("BF16") >= count("F32")) return DType::kBFloat16;
  return count("F16") > count("F32") ? DType::kFloat16 : DType::kFloat32;
}

/// Says so where the index lists other files than a model.safetensors that lies beside it: another program may read
/// that.
void warn_of_unlisted_file(const fs::path& folder, const WeightSource& weights) {
  std::error_code ignored;
  const fs::path single = folder / "model.safetensors";
  const std::vector<fs::path> files = weights.files();
  if (!fs::exists(single, ignored) || std::ranges::find(files, single) != files.end()) return;
  spdlog::warn("{} is not read: model.safetensors.index.json beside it lists other files", single.string());
}

Result<Checkpoint> open_hugging_face(const fs::path& folder) {
  QUIRE_ASSIGN_OR_RETURN(JudgedConfig judged, judge_model_config_files(folder));
  QUIRE_RETURN_IF_ERROR(refuse_quantized_folder(folder));
  const bool has_weights = has_safetensors(folder);
  if (!has_weights && !files_with_extension(folder, ".bin").empty()) {
    return unsupported(folder.string() +
                       " has its weights as PyTorch .bin pickles only; convert them with transformers: "
                       "AutoModelForCausalLM.from_pretrained(folder).save_pretrained(new_folder)");
  }
  if (!has_weights) {
    return not_found(folder.string() + " has neither model.safetensors nor model.safetensors.index.json");
  }
  for (const std::string& warning : judged.warnings) spdlog::warn("{}", warning);
  Checkpoint checkpoint{folder, false, std::move(judged.config), nullptr};
  QUIRE_ASSIGN_OR_RETURN(checkpoint.weights, open_safetensors_folder(folder));
  warn_of_unlisted_file(folder, *checkpoint.weights);
  QUIRE_ASSIGN_OR_RETURN(const std::string head_warning, judge_tied_head(checkpoint));
  if (!head_warning.empty()) spdlog::warn("{}", head_warning);
  if (!judged.dtype_given) checkpoint.config.dtype = most_common_dtype(*checkpoint.weights);
  return checkpoint;
}

Result<Checkpoint> open_folder(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / "config.json", ignored)) return open_hugging_face(folder);
  const std::vector<std::string> names = files_with_extension(folder, ".gguf");
  if (names.size() == 1) return open_gguf(folder / names.front());
  if (names.size() > 1) {
    return invalid_argument(folder.string() + " has " + std::to_string(names.size()) +
                            " .gguf files; give the path of one, such as " + (folder / names.front()).string());
  }
  return not_found(folder.string() + " has no config.json and no .gguf file; it is not a model's folder");
}

}  // namespace

Result<Checkpoint> open_checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    return not_found("model path " + path.string() +
                     " is not found; give a folder in Hugging Face's layout or a .gguf file");
  }
  if (fs::is_directory(path, ignored)) return open_folder(path);
  if (GgufFile::has_magic(path)) return open_gguf(path);
  QUIRE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  if (const auto hint = wrong_file_hint(file.bytes())) return invalid_argument(path.string() + " " + *hint);
  if (path.extension() == ".gguf") return open_gguf(path);
  if (path.extension() == ".safetensors") {
    return invalid_argument(path.string() + " is a single weights file; give the folder that has it and config.json");
  }
  return invalid_argument(path.string() + " is no GGUF file and no folder in Hugging Face's layout");
}

}  // namespace quire
