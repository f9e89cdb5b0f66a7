#include "checkpoint/safetensors_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "checkpoint/json_document.h"
#include "checkpoint/printable.h"
#include "checkpoint/weight_index.h"
#include "tensor/convert.h"

namespace quire {
namespace {

using nlohmann::json;

std::optional<DType> readable_dtype(const std::string& name) {
  if (name == "F32") return DType::kFloat32;
  if (name == "BF16") return DType::kBFloat16;
  if (name == "F16") return DType::kFloat16;
  return std::nullopt;
}

/// Widens rows that do not lie on their elements' alignment: a header of odd length moves all tensors.
void widen(const std::byte* data, DType dtype, size_t count, std::vector<float>& scratch) {
  scratch.resize(count);
  if (dtype == DType::kFloat32) {
    std::memcpy(scratch.data(), data, count * sizeof(float));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, data + i * sizeof(bits), sizeof(bits));
    scratch[i] = dtype == DType::kBFloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
  }
}

class SafetensorsSource final : public WeightSource {
 public:
  SafetensorsSource(std::vector<SafetensorsFile> files, std::string description)
      : files_(std::move(files)), description_(std::move(description)) {}

  Status build_index() {
    for (const SafetensorsFile& file : files_) {
      for (const SafetensorsEntry& entry : file.entries()) {
        const Place* taken = index_.add({entry.name, entry.shape, entry.dtype, entry.bytes}, {&file, &entry});
        if (taken != nullptr) {
          return invalid_argument("tensor " + quote_name(entry.name) + " is in both " + taken->file->description() +
                                  " and " + file.description());
        }
      }
    }
    return {};
  }

  std::span<const WeightInfo> tensors() const override { return index_.weights(); }

  const WeightInfo* find(std::string_view name) const override { return index_.find(name); }

  Result<MatrixView> read_rows(const WeightInfo& weight, int64_t begin, int64_t count,
                               std::vector<float>& scratch) const override {
    const Place& place = index_.place_of(weight);
    const auto dtype = readable_dtype(place.entry->dtype);
    if (!dtype) {
      return unsupported(place.file->description() + ": tensor " + quote_name(weight.name) + " has dtype " +
                         place.entry->dtype + "; readable are F32, BF16 and F16");
    }
    QUIRE_CHECK(begin >= 0 && count >= 0 && begin <= weight.rows() && count <= weight.rows() - begin);
    const int64_t cols = weight.cols();
    const size_t element = dtype_size(*dtype);
    const std::byte* data = place.file->data(*place.entry).data() + static_cast<size_t>(begin * cols) * element;
    if (reinterpret_cast<uintptr_t>(data) % element == 0) return MatrixView{data, *dtype, count, cols, cols};
    widen(data, *dtype, static_cast<size_t>(count * cols), scratch);
    return MatrixView{scratch.data(), DType::kFloat32, count, cols, cols};
  }

  void release(const WeightInfo& weight) const override {
    const Place& place = index_.place_of(weight);
    place.file->release(*place.entry);
  }

  std::vector<std::filesystem::path> files() const override {
    std::vector<std::filesystem::path> paths;
    for (const SafetensorsFile& file : files_) paths.emplace_back(file.description());
    return paths;
  }

  const std::string& description() const override { return description_; }

 private:
  struct Place {
    const SafetensorsFile* file;
    const SafetensorsEntry* entry;
  };

  const std::vector<SafetensorsFile> files_;
  const std::string description_;
  WeightIndex<Place> index_;
};

Status check_shard_name(const std::string& name, const std::string& where) {
  const bool inside = !name.empty() && name.find('/') == std::string::npos && name.find('\\') == std::string::npos &&
                      name.find('\0') == std::string::npos && name != "." && name != "..";
  if (inside) return {};
  return invalid_argument(where + ": shard name " + quote_name(name) + " is not a plain file name in the same folder");
}

/// Every tensor that the index lists must be in a shard.
Status check_index(const json& weight_map, const WeightSource& source, const std::string& where) {
  for (const auto& [tensor, shard] : weight_map.items()) {
    if (source.find(tensor) != nullptr) continue;
    return invalid_argument(where + " lists tensor " + quote_name(tensor) + " in " +
                            quote_name(shard.get<std::string>()) +
                            ", which does not have it; the download may be incomplete or mixed");
  }
  return {};
}

Result<std::unique_ptr<WeightSource>> open_sharded(const std::filesystem::path& folder,
                                                   const std::filesystem::path& index_path,
                                                   Result<SafetensorsFile> (*open_file)(const std::filesystem::path&)) {
  const std::string where = index_path.string();
  QUIRE_ASSIGN_OR_RETURN(const json index, read_json_object(index_path));
  const auto weight_map = index.find("weight_map");
  if (weight_map == index.end() || !weight_map->is_object()) return invalid_argument(where + " has no weight_map");
  std::set<std::string> names;
  for (const auto& [tensor, shard] : weight_map->items()) {
    if (!shard.is_string()) return invalid_argument(where + ": the shard of " + quote_name(tensor) + " is no name");
    names.insert(shard.get<std::string>());
  }
  std::vector<SafetensorsFile> files;
  for (const std::string& name : names) {
    QUIRE_RETURN_IF_ERROR(check_shard_name(name, where));
    std::error_code ignored;
    if (!std::filesystem::exists(folder / name, ignored)) {
      return not_found(where + " names shard " + quote_name(name) + ", which is missing; download it");
    }
    QUIRE_ASSIGN_OR_RETURN(SafetensorsFile file, open_file(folder / name));
    files.push_back(std::move(file));
  }
  QUIRE_ASSIGN_OR_RETURN(auto source, make_safetensors_source(std::move(files), folder.string()));
  QUIRE_RETURN_IF_ERROR(check_index(*weight_map, *source, where));
  return source;
}

}  // namespace

Result<std::unique_ptr<WeightSource>> make_safetensors_source(std::vector<SafetensorsFile> files,
                                                              std::string description) {
  auto source = std::make_unique<SafetensorsSource>(std::move(files), std::move(description));
  QUIRE_RETURN_IF_ERROR(source->build_index());
  return std::unique_ptr<WeightSource>(std::move(source));
}

bool has_safetensors(const std::filesystem::path& folder, std::string_view stem) {
  std::error_code ignored;
  const std::string name = std::string(stem) + ".safetensors";
  return std::filesystem::exists(folder / name, ignored) ||
         std::filesystem::exists(folder / (name + ".index.json"), ignored);
}

Result<std::unique_ptr<WeightSource>> open_safetensors_folder(
    const std::filesystem::path& folder, std::string_view stem,
    Result<SafetensorsFile> (*open_file)(const std::filesystem::path&)) {
  std::error_code ignored;
  const std::string name = std::string(stem) + ".safetensors";
  const auto index_path = folder / (name + ".index.json");
  if (std::filesystem::exists(index_path, ignored)) return open_sharded(folder, index_path, open_file);
  QUIRE_ASSIGN_OR_RETURN(SafetensorsFile file, open_file(folder / name));
  std::vector<SafetensorsFile> files;
  files.push_back(std::move(file));
  return make_safetensors_source(std::move(files), folder.string());
}

}  // namespace quire
