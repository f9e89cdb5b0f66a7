#include "lora/lora_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

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

/// Checks one module against its layer.
class ModuleCheck {
 public:
  ModuleCheck(const std::string& name, const AdapterModule& module, const AdaptableLayer& layer, std::string_view piece)
      : name_(name), module_(module), layer_(layer), in_(layer.in_features) {
    for (const OutputPiece& part : layer.pieces) {
      if (piece.empty() || part.id == piece) out_ += part.size;
    }
  }

  Status run() const {
    QUIRE_RETURN_IF_ERROR(check_kinds());
    const bool embedding = layer_.kind == AdaptableLayer::Kind::kEmbedding;
    const int64_t rank = module_.rank;
    const int64_t inputs = embedding ? out_ : in_;   // of an embedding, A's input is the token
    const int64_t outputs = embedding ? in_ : out_;  // and what comes out is the hidden state
    QUIRE_RETURN_IF_ERROR(check(module_.a, {rank, inputs}));
    QUIRE_RETURN_IF_ERROR(check(module_.b, {outputs, rank}));
    QUIRE_RETURN_IF_ERROR(check(module_.magnitude, {outputs}));
    QUIRE_RETURN_IF_ERROR(check(module_.lora_bias, {outputs}));
    QUIRE_RETURN_IF_ERROR(check(module_.bias, {outputs}));
    QUIRE_RETURN_IF_ERROR(check(module_.weight, {out_, in_}));
    QUIRE_RETURN_IF_ERROR(check(module_.base_copy, {out_, in_}));
    return check_tokens();
  }

 private:
  Error refuse(const std::string& reason) const {
    return unsupported(fmt::format("{}: module {} {}", name_, module_.path, reason));
  }

  Status check(const WeightInfo* tensor, const std::vector<int64_t>& expected) const {
    if (tensor == nullptr || tensor->shape == expected) return {};
    return invalid_argument(fmt::format("{}: tensor {} has shape [{}], but the model asks for [{}]", name_,
                                        tensor->name, fmt::join(tensor->shape, ", "), fmt::join(expected, ", ")));
  }

  Status check_kinds() const {
    const bool embedding = layer_.kind == AdaptableLayer::Kind::kEmbedding;
    if ((module_.a == nullptr) != (module_.b == nullptr)) return refuse("has only one of A and B");
    if (module_.a == nullptr && (module_.magnitude != nullptr || module_.lora_bias != nullptr)) {
      return refuse("has a magnitude or a bias of B without A and B");
    }
    if (module_.a != nullptr && module_.rank < 1) return refuse("has rank 0");
    if (module_.a != nullptr && module_.embedding != embedding) {
      return refuse(embedding ? "is an embedding, but its A and B are those of a linear layer"
                              : "is a linear layer, but its A and B are those of an embedding");
    }
    if (module_.a != nullptr && module_.weight != nullptr) return refuse("has A and B beside a whole weight");
    if (embedding && (module_.bias != nullptr || module_.lora_bias != nullptr)) return refuse("has a bias");
    return {};
  }

  Status check_tokens() const {
    if (module_.token_rows == nullptr) return {};
    if (layer_.kind == AdaptableLayer::Kind::kLinear && layer_.bias != nullptr) {
      return refuse("has rows for tokens, but is neither the embedding nor the head");
    }
    QUIRE_RETURN_IF_ERROR(check(module_.token_rows, {static_cast<int64_t>(module_.token_ids.size()), in_}));
    for (const int64_t id : module_.token_ids) {
      if (id < 0 || id >= out_) {
        return invalid_argument(
            fmt::format("{}: token id {} of trainable_token_indices is outside the vocabulary of {}", name_, id, out_));
      }
    }
    return {};
  }

  const std::string& name_;
  const AdapterModule& module_;
  const AdaptableLayer& layer_;
  int64_t in_;
  int64_t out_ = 0;
};

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
    QUIRE_RETURN_IF_ERROR(ModuleCheck(name, *fit.module, layers.layers()[fit.layer], fit.piece).run());
  }
  QUIRE_RETURN_IF_ERROR(check_distinct(name, fits));
  return fits;
}

}  // namespace quire
