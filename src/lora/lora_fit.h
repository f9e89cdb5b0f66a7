// Which layer an adapter's module belongs to, and whether its tensors have the sizes of that layer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "layers/adaptable_layers.h"
#include "lora/adapter_files.h"

namespace quire {

/// A module of an adapter and the layer, or piece of a layer, that it changes.
struct LoraFit {
  const AdapterModule* module = nullptr;
  size_t layer = 0;
  std::string_view piece;  ///< "" for the whole layer
};

/// Every module with its layer, sizes checked; those of other pipeline stages' layers are left out. An Error names the
/// tensors that belong to no layer, or a tensor with its shape and the shape that the model asks for, or two modules
/// that change the same outputs. `name` says whose tensors they are.
Result<std::vector<LoraFit>> fit_modules(const std::string& name, std::span<const AdapterModule> modules,
                                         const AdaptableLayers& layers, std::span<const StackedName> stacked);

}  // namespace quire
