// Which files of a repository a model or an adapter needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

struct HubFile {
  std::string name;  ///< its path in the repository
  std::optional<int64_t> bytes;
};

struct FileChoice {
  std::vector<std::string> files;
  std::string index;   ///< one of `files` that lists weights files to take besides; empty: none
  std::string single;  ///< one of `files` that is the whole model, a .gguf file; empty: the folder is
};

/// A Hugging Face folder where the repository has safetensors; else, or with a variant, one .gguf file: that of the
/// variant ("Q4_K_M" or the file's name), the only one, or Q4_K_M's as llama.cpp takes it. `where` stands for the
/// repository in messages.
Result<FileChoice> choose_model_files(const std::vector<HubFile>& files, const std::string& variant,
                                      const std::string& where);
/// The tokenizer's part of a Hugging Face folder, or a .gguf file.
Result<FileChoice> choose_tokenizer_files(const std::vector<HubFile>& files, const std::string& variant,
                                          const std::string& where);
/// PEFT's config and weights.
Result<FileChoice> choose_adapter_files(const std::vector<HubFile>& files, const std::string& where);

/// The weights files that an index (the text of a *.safetensors.index.json) names, each once.
Result<std::vector<std::string>> files_of_index(std::string_view index_text, const std::vector<HubFile>& files,
                                                const std::string& where);

}  // namespace quire
