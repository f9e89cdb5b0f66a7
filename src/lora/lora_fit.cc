#include "lora/lora_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "lora/module_check.h"

namespace quire {
namespace {

constexpr size_t kNamesInMessage = 8;

Error unmatched(const std::string& name, const std::vector<std::string>& tensors, bool all) {
  const size_t shown = std::min(tensors.size(), kNamesInMessage);
  return invalid_argument(fmt::format(
      "{}: {} of the adapter's tensors belong to {}: {}{}", name, all ? "all" : std::to_string(tensors.size()),
      all ? "modules that this model does not have" : "modules that this model does not have or cannot adapt",
      fmt::join(tensors.begin(), tensors.begin() + static_cast<ptrdiff_t>(shown), ", "),
      shown < tensors.size() ? fmt::format(" and {} more", tensors.size() - shown) : std::string()));
}

/// The layer's part that the module changes, as the checkpoint has it.
BaseModule base_module(const AdaptableLayer& layer, std::string_view piece) {
  BaseModule base{layer.kind, 0, layer.in_features, false};
  for (const OutputPiece& part : layer.pieces) {
    if (piece.empty() || part.id == piece) base.outputs += part.size;
  }
  // Another rank holds the bias where this one adds none.
  base.has_bias = layer.bias != nullptr && (layer.bias->defined() || !layer.add_bias_here);
  return base;
}

Status check_distinct(const std::string& name, const std::vector<LoraFit>& fits) {
  std::map<size_t, const AdapterModule*> whole;
  std::map<size_t, const AdapterModule*> any;
  for (const LoraFit& fit : fits) {
    const auto clash = whole.find(fit.layer);
    const auto other = any.find(fit.layer);
    const AdapterModule* first = nullptr;
    if (clash != whole.end()) first = clash->second;
    if (fit.piece.empty() && other != any.end()) first = other->second;
    if (first != nullptr) {
      return invalid_argument(
          fmt::format("{}: modules {} and {} change the same outputs", name, first->path, fit.module->path));
    }
    any.emplace(fit.layer, fit.module);
    if (fit.piece.empty()) whole.emplace(fit.layer, fit.module);
  }
  return {};
}

}  // namespace

Result<std::vector<LoraFit>> fit_modules(const std::string& name, std::span<const AdapterModule> modules,
                                         const AdaptableLayers& layers, std::span<const StackedName> stacked) {
  std::vector<LoraFit> fits;
  std::vector<std::string> strangers;
  for (const AdapterModule& module : modules) {
    if (const auto target = layers.find(module.path, stacked)) {
      fits.push_back({&module, target->layer, target->piece});
      continue;
    }
    if (layers.is_elsewhere(module.path)) continue;
    for (const WeightInfo* tensor : module.tensors()) strangers.push_back(tensor->name);
  }
  if (!strangers.empty()) return unmatched(name, strangers, fits.empty());
  if (std::ranges::none_of(modules, &AdapterModule::changes_something))
    return invalid_argument(fmt::format("{}: the adapter changes nothing", name));
  for (const LoraFit& fit : fits) {
    QUIRE_RETURN_IF_ERROR(check_module(name, *fit.module, base_module(layers.layers()[fit.layer], fit.piece)));
  }
  QUIRE_RETURN_IF_ERROR(check_distinct(name, fits));
  return fits;
}

}  // namespace quire
