#include "lora/adapter_tensor_name.h"

#include <algorithm>
#include <span>
#include <vector>

namespace quire {
namespace {

using Role = AdapterTensorRole;
using Parts = std::span<const std::string_view>;

constexpr size_t kMaxNameLength = 512;

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string join(Parts parts) {
  std::string text;
  for (const std::string_view part : parts) {
    if (!text.empty()) text += '.';
    text += part;
  }
  return text;
}

/// What may follow the part that marks a tensor: [adapter's name] and, of a module's parameter, its name.
struct Marker {
  std::string_view part;       ///< "lora_A"
  std::string_view parameter;  ///< "weight", "bias"
  bool bare = false;           ///< the parameter's name may be left out
  Role role;
};

constexpr Marker kMarkers[] = {
    {"lora_A", "weight", false, Role::kLoraA},
    {"lora_B", "weight", false, Role::kLoraB},
    {"lora_B", "bias", false, Role::kLoraBias},
    {"lora_embedding_A", "weight", true, Role::kEmbeddingA},
    {"lora_embedding_B", "weight", true, Role::kEmbeddingB},
    {"lora_magnitude_vector", "weight", true, Role::kMagnitude},
    {"lora_velora_embed", "", true, Role::kUnused},
    {"modules_to_save", "weight", false, Role::kWeight},
    {"modules_to_save", "bias", false, Role::kBias},
    {"trainable_tokens_delta", "", true, Role::kTokenRows},
};

/// Endings without an adapter's name.
struct Ending {
  std::string_view parts[3];
  Role role;
};

constexpr Ending kEndings[] = {
    {{"token_adapter", "base_layer", "weight"}, Role::kBaseCopy},
    {{"", "base_layer", "weight"}, Role::kBaseCopy},
    {{"", "base_layer", "bias"}, Role::kBias},
    {{"", "original_module", "weight"}, Role::kBaseCopy},
    {{"", "original_module", "bias"}, Role::kUnused},
    {{"", "", "weight"}, Role::kWeight},
    {{"", "", "bias"}, Role::kBias},
};

/// The module's parts, its role and the adapter's name, if a marker stands at `at`.
bool match_marker(Parts parts, size_t at, AdapterTensorName& found) {
  const Parts rest = parts.subspan(at + 1);
  for (const Marker& marker : kMarkers) {
    if (parts[at] != marker.part) continue;
    const bool named = !marker.parameter.empty() && !rest.empty() && rest.back() == marker.parameter;
    if (!named && !marker.bare) continue;
    const Parts between = named ? rest.first(rest.size() - 1) : rest;
    if (between.size() > 1) continue;
    found.role = marker.role;
    found.adapter = between.empty() ? "" : std::string(between[0]);
    return true;
  }
  return false;
}

/// How many parts before the marker or ending belong to the module.
std::optional<size_t> find_role(Parts parts, AdapterTensorName& found) {
  for (size_t at = parts.size(); at-- > 0;) {
    if (!match_marker(parts, at, found)) continue;
    const bool wrapped = parts[at] == "trainable_tokens_delta";
    if (!wrapped) return at;
    if (at == 0 || parts[at - 1] != "token_adapter") return std::nullopt;
    return at - 1;
  }
  for (const Ending& ending : kEndings) {
    size_t length = 0;
    bool matched = true;
    for (size_t i = 3; i-- > 0;) {
      if (ending.parts[i].empty()) break;
      matched = matched && length < parts.size() && parts[parts.size() - 1 - length] == ending.parts[i];
      ++length;
    }
    if (!matched) continue;
    found.role = ending.role;
    return parts.size() - length;
  }
  return std::nullopt;
}

/// Leaves out what a multimodal model puts before its text model, and puts "model." before a bare decoder's modules.
std::string checkpoint_path(Parts parts) {
  const auto begins = [&](std::string_view first, std::string_view second) {
    return parts.size() > 2 && parts[0] == first && parts[1] == second;
  };
  const std::string_view first = parts[0];
  if (begins("model", "language_model") || begins("language_model", "model")) {
    parts = parts.subspan(2);
    return (parts[0] == "lm_head" ? "" : "model.") + join(parts);
  }
  if (first == "language_model" && parts.size() == 2 && parts[1] == "lm_head") return "lm_head";
  if (first == "layers" || first == "embed_tokens" || first == "norm") return "model." + join(parts);
  return join(parts);
}

}  // namespace

std::optional<AdapterTensorName> parse_adapter_tensor_name(std::string_view name) {
  if (name.size() > kMaxNameLength) return std::nullopt;
  const std::vector<std::string_view> all = split(name);
  if (std::ranges::find(all, std::string_view()) != all.end()) return std::nullopt;
  Parts parts = all;
  if (parts.size() > 2 && parts[0] == "base_model" && parts[1] == "model") parts = parts.subspan(2);
  AdapterTensorName found;
  const std::optional<size_t> length = find_role(parts, found);
  if (!length || *length == 0) return std::nullopt;
  found.trained_path = join(parts.first(*length));
  found.path = checkpoint_path(parts.first(*length));
  return found;
}

}  // namespace quire
