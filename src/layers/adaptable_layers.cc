#include "layers/adaptable_layers.h"

#include <algorithm>

namespace quire {

std::optional<AdaptableLayers::Target> AdaptableLayers::find(std::string_view module,
                                                             std::span<const StackedName> stacked) const {
  const auto index_of = [&](std::string_view prefix) {
    return static_cast<size_t>(std::ranges::find(layers_, prefix, &AdaptableLayer::prefix) - layers_.begin());
  };
  if (const size_t layer = index_of(module); layer < layers_.size()) return Target{layer, ""};
  for (const StackedName& rule : stacked) {
    const std::string name = replace_name_part(module, rule.checkpoint_part, rule.parameter_part);
    if (name.empty()) continue;
    if (const size_t layer = index_of(name); layer < layers_.size()) return Target{layer, rule.piece};
  }
  return std::nullopt;
}

}  // namespace quire
