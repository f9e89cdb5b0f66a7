// A model's safetensors shards as a WeightSource.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/weight_source.h"

namespace quire {

/// Opens <stem>.safetensors, or the shards that <stem>.safetensors.index.json names. Index and shards must agree: no
/// missing shard, no listed tensor that no shard has, no tensor in two shards, no shard outside the folder. `open_file`
/// is SafetensorsFile::open or ::copy.
Result<std::unique_ptr<WeightSource>> open_safetensors_folder(
    const std::filesystem::path& folder, std::string_view stem = "model",
    Result<SafetensorsFile> (*open_file)(const std::filesystem::path&) = &SafetensorsFile::open);

/// Whether the folder has one of those files.
bool has_safetensors(const std::filesystem::path& folder, std::string_view stem = "model");

/// One opened file or several as a source; a name in two of them is refused.
Result<std::unique_ptr<WeightSource>> make_safetensors_source(std::vector<SafetensorsFile> files,
                                                              std::string description);

}  // namespace quire
