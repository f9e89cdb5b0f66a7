#include "layers/parameter_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace quire {

namespace {

constexpr size_t kNamesInMessage = 8;

std::string list_names(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kNamesInMessage);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

bool has_suffix(std::string_view name, const std::vector<std::string>& suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](const std::string& suffix) { return name.ends_with(suffix); });
}

}  // namespace

std::string replace_name_part(std::string_view name, std::string_view from, std::string_view to) {
  const size_t at = name.find(from);
  if (at == std::string_view::npos) return {};
  const size_t end = at + from.size();
  if (end < name.size() && name[end] != '.') return {};
  return fmt::format("{}{}{}", name.substr(0, at), to, name.substr(end));
}

bool lies_below(std::string_view name, std::span<const std::string> prefixes) {
  return std::ranges::any_of(prefixes, [&](const std::string& prefix) {
    return name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '.');
  });
}

void ParameterTable::add(std::string name, std::vector<int64_t> whole, std::vector<ParameterPiece> pieces, Load load) {
  const bool added =
      parameters_.emplace(std::move(name), Parameter{std::move(whole), std::move(pieces), std::move(load), {}}).second;
  QUIRE_CHECK(added);
}

ParameterTable::Target ParameterTable::find(std::string_view checkpoint_name, std::span<const StackedName> stacked) {
  if (auto it = parameters_.find(checkpoint_name); it != parameters_.end()) return {&it->second, ""};
  for (const StackedName& rule : stacked) {
    const std::string name = replace_name_part(checkpoint_name, rule.checkpoint_part, rule.parameter_part);
    if (name.empty()) continue;
    if (auto it = parameters_.find(name); it != parameters_.end()) return {&it->second, rule.piece};
  }
  return {};
}

Status ParameterTable::load_one(const WeightSource& source, const WeightInfo& weight, const Target& target) const {
  const std::vector<int64_t>* expected = &target.parameter->whole;
  if (!target.piece.empty()) {
    const auto& pieces = target.parameter->pieces;
    const auto piece =
        std::find_if(pieces.begin(), pieces.end(), [&](const ParameterPiece& p) { return p.id == target.piece; });
    if (piece == pieces.end()) return internal_error(fmt::format("no piece '{}' for {}", target.piece, weight.name));
    expected = &piece->shape;
  }
  if (weight.shape != *expected) {
    return invalid_argument(fmt::format("{}: tensor {} has shape [{}], but the model's config asks for [{}]",
                                        source.description(), weight.name, fmt::join(weight.shape, ", "),
                                        fmt::join(*expected, ", ")));
  }
  return target.parameter->load(source, weight, target.piece);
}

std::vector<std::string> ParameterTable::missing(std::span<const StackedName> stacked) const {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.loaded.contains("")) continue;
    if (parameter.loaded.empty()) {
      names.push_back(name);
      continue;
    }
    for (const ParameterPiece& piece : parameter.pieces) {
      if (parameter.loaded.contains(piece.id)) continue;
      std::string piece_name = fmt::format("{} ({})", name, piece.id);
      for (const StackedName& rule : stacked) {
        if (rule.piece != piece.id) continue;
        if (auto original = replace_name_part(name, rule.parameter_part, rule.checkpoint_part); !original.empty()) {
          piece_name = original;
        }
      }
      names.push_back(piece_name);
    }
  }
  return names;
}

Status ParameterTable::load(const WeightSource& source, const LoadOptions& options) {
  std::vector<std::string> unexpected;
  for (const WeightInfo& weight : source.tensors()) {
    const Target target = find(weight.name, options.stacked);
    if (target.parameter == nullptr) {
      const bool known = has_suffix(weight.name, options.ignored_suffixes) || lies_below(weight.name, elsewhere_);
      if (!known) unexpected.push_back(weight.name);
    } else {
      QUIRE_RETURN_IF_ERROR(load_one(source, weight, target));
      target.parameter->loaded.emplace(target.piece);
      source.release(weight);
    }
    if (options.progress) options.progress(static_cast<int64_t>(weight.stored_bytes));
  }
  if (const auto names = missing(options.stacked); !names.empty()) {
    return invalid_argument(fmt::format("{}: {} tensor(s) that the model needs are missing: {}", source.description(),
                                        names.size(), list_names(names)));
  }
  if (!unexpected.empty()) {
    return unsupported(fmt::format("{}: {} tensor(s) would not be used by this model: {}", source.description(),
                                   unexpected.size(), list_names(unexpected)));
  }
  return {};
}

}  // namespace quire
