#include "hub/file_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

namespace quire {
namespace {

constexpr std::string_view kDefaultVariant = "q4_k_m";

bool has(const std::vector<HubFile>& files, std::string_view name) {
  return std::ranges::any_of(files, [&](const HubFile& file) { return file.name == name; });
}

bool has_ending(const std::vector<HubFile>& files, std::string_view ending) {
  return std::ranges::any_of(files, [&](const HubFile& file) { return file.name.ends_with(ending); });
}

/// Configs, the tokenizer and its templates. Folders below hold copies for other programs.
bool is_text_part(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".index.json")) return false;
  return name.ends_with(".json") || name.ends_with(".jinja") || name.ends_with(".model") || name == "merges.txt" ||
         name == "vocab.txt";
}

std::vector<std::string> text_parts(const std::vector<HubFile>& files) {
  std::vector<std::string> names;
  for (const HubFile& file : files) {
    if (is_text_part(file.name)) names.push_back(file.name);
  }
  return names;
}

/// Adds stem.safetensors or the index of several to the choice; false where there is neither.
bool add_weights(const std::vector<HubFile>& files, const std::string& stem, FileChoice& choice) {
  const std::string single = stem + ".safetensors", index = single + ".index.json";
  // The loader reads them in this order, too.
  if (has(files, index)) {
    choice.index = index;
    choice.files.push_back(index);
    return true;
  }
  if (!has(files, single)) return false;
  choice.files.push_back(single);
  return true;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// A .gguf file's name without its ending, in lower case.
struct GgufName {
  std::string name, stem;
  bool split = false;  ///< a part of a model, whose numbers are not in `stem`
};

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<GgufName> gguf_names(const std::vector<HubFile>& files) {
  std::vector<GgufName> names;
  for (const HubFile& file : files) {
    std::string stem = lower(file.name);
    // A projector for pictures is no model.
    if (!stem.ends_with(".gguf") || stem.find("mmproj") != std::string::npos) continue;
    stem.resize(stem.size() - std::string_view(".gguf").size());
    GgufName name{file.name, stem, false};
    constexpr size_t kPart = std::string_view("-00001-of-00002").size();
    if (stem.size() > kPart) {
      const std::string_view part = std::string_view(stem).substr(stem.size() - kPart);
      name.split =
          part[0] == '-' && is_digits(part.substr(1, 5)) && part.substr(6, 4) == "-of-" && is_digits(part.substr(10));
    }
    if (name.split) name.stem.resize(stem.size() - kPart);
    names.push_back(std::move(name));
  }
  return names;
}

/// Whether the stem ends in the quantization's name.
bool is_of_variant(const std::string& stem, const std::string& variant) {
  if (!stem.ends_with(variant)) return false;
  const size_t before = stem.size() - variant.size();
  return before == 0 || std::string_view("-._/").find(stem[before - 1]) != std::string_view::npos;
}

std::vector<GgufName> of_variant(const std::vector<GgufName>& names, const std::string& variant) {
  std::vector<GgufName> found;
  for (const GgufName& name : names) {
    if (name.name == variant) return {name};
    if (is_of_variant(name.stem, lower(variant))) found.push_back(name);
  }
  return found;
}

std::string list_of(const std::vector<GgufName>& names) {
  constexpr size_t kMost = 30;
  std::vector<std::string> texts;
  for (const GgufName& name : names) {
    if (texts.size() < kMost) texts.push_back(name.name);
  }
  if (names.size() > kMost) texts.push_back(fmt::format("{} more", names.size() - kMost));
  return fmt::format("{}", fmt::join(texts, ", "));
}

Result<FileChoice> choose_gguf(const std::vector<GgufName>& names, const std::string& variant,
                               const std::string& where) {
  std::vector<GgufName> found = variant.empty() ? names : of_variant(names, variant);
  if (variant.empty() && found.size() > 1) found = of_variant(names, std::string(kDefaultVariant));
  if (found.empty() && variant.empty()) {
    return invalid_argument(
        fmt::format("{} has several .gguf files: name one behind a colon, by its quantization or its "
                    "file's name; there are {}",
                    where, list_of(names)));
  }
  if (found.empty()) {
    return not_found(fmt::format("{} has no .gguf file of '{}'; there are {}", where, variant,
                                 names.empty() ? "none" : list_of(names)));
  }
  if (std::ranges::any_of(found, &GgufName::split)) {
    return unsupported(
        fmt::format("{} has this model in parts ({}), which are not read: join them with llama.cpp's "
                    "llama-gguf-split --merge, and give the file's path",
                    where, list_of(found)));
  }
  if (found.size() > 1) {
    return invalid_argument(fmt::format("{} has {} files of '{}': name one behind a colon; there are {}", where,
                                        found.size(), variant.empty() ? kDefaultVariant : variant, list_of(found)));
  }
  return FileChoice{{found.front().name}, {}, found.front().name};
}

}  // namespace

Result<FileChoice> choose_model_files(const std::vector<HubFile>& files, const std::string& variant,
                                      const std::string& where) {
  const std::vector<GgufName> names = gguf_names(files);
  if (!variant.empty()) return choose_gguf(names, variant, where);
  FileChoice choice{text_parts(files), {}, {}};
  if (has(files, "config.json") && add_weights(files, "model", choice)) return choice;
  if (!names.empty()) return choose_gguf(names, variant, where);
  if (has(files, "adapter_config.json")) {
    return invalid_argument(
        fmt::format("{} is a LoRA adapter, not a model: serve its base model, with --enable-lora "
                    "--lora-modules NAME=PATH for the adapter",
                    where));
  }
  if (has(files, "config.json") &&
      (has_ending(files, ".bin") || has_ending(files, ".pt") || has_ending(files, ".pth"))) {
    return unsupported(
        fmt::format("{} has its weights as PyTorch pickles only, which are not read: look for a revision "
                    "or a copy with safetensors",
                    where));
  }
  return not_found(
      fmt::format("{} has no model that can be read: neither config.json with model.safetensors or its "
                  "index, nor a .gguf file",
                  where));
}

Result<FileChoice> choose_tokenizer_files(const std::vector<HubFile>& files, const std::string& variant,
                                          const std::string& where) {
  const std::vector<GgufName> names = gguf_names(files);
  if (!variant.empty() || (!has(files, "tokenizer.json") && !names.empty())) return choose_gguf(names, variant, where);
  if (!has(files, "tokenizer.json")) return not_found(fmt::format("{} has no tokenizer.json", where));
  return FileChoice{text_parts(files), {}, {}};
}

Result<FileChoice> choose_adapter_files(const std::vector<HubFile>& files, const std::string& where) {
  if (!has(files, "adapter_config.json")) {
    return not_found(fmt::format("{} has no adapter_config.json: it is no PEFT adapter", where));
  }
  FileChoice choice{{"adapter_config.json"}, {}, {}};
  if (add_weights(files, "adapter_model", choice)) return choice;
  return unsupported(fmt::format("{} has no adapter_model.safetensors, the form in which adapters are read", where));
}

Result<std::vector<std::string>> files_of_index(std::string_view index_text, const std::vector<HubFile>& files,
                                                const std::string& where) {
  const nlohmann::json index = nlohmann::json::parse(index_text, nullptr, false);
  const auto weight_map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || weight_map == index.end() || !weight_map->is_object()) {
    return invalid_argument(fmt::format("{}: the index of its weights has no weight_map", where));
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map->items()) {
    if (!file.is_string()) return invalid_argument(fmt::format("{}: the index of its weights is damaged", where));
    names.insert(file.get<std::string>());
  }
  for (const std::string& name : names) {
    if (!has(files, name))
      return not_found(fmt::format("{} lacks {}, which the index of its weights names", where, name));
  }
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace quire
