// What the name of an adapter's tensor says: which module it belongs to and what it is there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

enum class AdapterTensorRole : uint8_t {
  kLoraA,
  kLoraB,
  kLoraBias,
  kEmbeddingA,
  kEmbeddingB,
  kMagnitude,
  kWeight,  ///< the whole weight of a module (modules_to_save, or a resized vocabulary)
  kBias,
  kTokenRows,
  kBaseCopy,  ///< a copy of the base weight
  kUnused,    ///< holds nothing that inference needs
};

struct AdapterTensorName {
  std::string trained_path;  ///< the module as the trained model names it; patterns of the config match it
  std::string path;          ///< the module as a text model's checkpoint names it
  AdapterTensorRole role = AdapterTensorRole::kUnused;
  std::string adapter;  ///< the adapter's name inside the tensor's ("default"), mostly left out
};

/// Splits a name such as "base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight". Known are PEFT's
/// forms with and without "base_model.model.", with and without the adapter's name, and modules named as in a
/// multimodal wrapper ("model.language_model.", "language_model.model.") or without "model.". Nothing for others.
std::optional<AdapterTensorName> parse_adapter_tensor_name(std::string_view name);

}  // namespace quire
