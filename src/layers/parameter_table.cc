#include "layers/parameter_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <regex>

namespace quire {

namespace {

constexpr size_t kNamesInMessage = 8;
constexpr size_t kLongestMatchedName = 1000;

/// The first names; where there are more, the log gets all of them.
std::string list_names(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kNamesInMessage);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < names.size()) {
    text += fmt::format(" and {} more", names.size() - shown);
    spdlog::error("All {}: {}", names.size(), fmt::join(names, ", "));
  }
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

Status ParameterTable::ignore_unexpected(const std::string& expression) {
  if (expression.empty()) return {};
  try {
    // Its implementation recurses along the text, so a name of a hostile length matches nothing.
    ignored_ = [regex = std::regex(expression)](std::string_view name) {
      return name.size() <= kLongestMatchedName && std::regex_search(name.begin(), name.end(), regex);
    };
  } catch (const std::regex_error& error) {
    return invalid_argument(
        fmt::format("--ignore-unexpected-weights '{}' is no regular expression: {}", expression, error.what()),
        "ignore_unexpected_weights");
  }
  return {};
}

ParameterTable::Plan ParameterTable::plan(const WeightSource& source, const LoadOptions& options) {
  Plan plan;
  for (const WeightInfo& weight : source.tensors()) {
    const Target target = find(weight.name, options.stacked);
    plan.targets.push_back(target);
    if (target.parameter == nullptr) {
      const bool known = has_suffix(weight.name, options.ignored_suffixes) || lies_below(weight.name, elsewhere_);
      if (!known) plan.unexpected.push_back(weight.name);
      continue;
    }
    target.parameter->loaded.emplace(target.piece);
    const std::vector<int64_t>* const expected = shape_of(target);
    if (expected == nullptr) {
      plan.misshapen.push_back(
          fmt::format("tensor {} stands for piece '{}', which its layer does not have", weight.name, target.piece));
    } else if (weight.shape != *expected) {
      plan.misshapen.push_back(fmt::format("tensor {} has shape [{}], but the model's config asks for [{}]",
                                           weight.name, fmt::join(weight.shape, ", "), fmt::join(*expected, ", ")));
    }
  }
  return plan;
}

const std::vector<int64_t>* ParameterTable::shape_of(const Target& target) {
  if (target.piece.empty()) return &target.parameter->whole;
  const auto piece = std::ranges::find(target.parameter->pieces, target.piece, &ParameterPiece::id);
  return piece == target.parameter->pieces.end() ? nullptr : &piece->shape;
}

void ParameterTable::pass_over(std::vector<std::string>& names, const std::string& where) const {
  if (!ignored_) return;
  std::vector<std::string> ignored;
  for (const std::string& name : names) {
    if (ignored_(name)) ignored.push_back(name);
  }
  if (ignored.empty()) return;
  std::erase_if(names, ignored_);
  spdlog::warn("{}: {} tensor(s) that this model has no use for are ignored, as --ignore-unexpected-weights says: {}",
               where, ignored.size(), fmt::join(ignored, ", "));
}

Status ParameterTable::load(const WeightSource& source, const LoadOptions& options) {
  for (auto& [name, parameter] : parameters_) parameter.loaded.clear();
  Plan planned = plan(source, options);
  std::vector<std::string> faults;
  if (!planned.misshapen.empty()) faults.push_back(list_names(planned.misshapen));
  if (const auto names = missing(options.stacked); !names.empty()) {
    faults.push_back(fmt::format("{} tensor(s) that the model needs are missing: {}", names.size(), list_names(names)));
  }
  pass_over(planned.unexpected, source.description());
  if (!planned.unexpected.empty()) {
    faults.push_back(fmt::format("{} tensor(s) would not be used by this model: {}", planned.unexpected.size(),
                                 list_names(planned.unexpected)));
  }
  if (!faults.empty()) {
    return invalid_argument(fmt::format("{}: {}", source.description(), fmt::join(faults, "; ")));
  }
  for (size_t i = 0; i < planned.targets.size(); ++i) {
    const WeightInfo& weight = source.tensors()[i];
    const Target& target = planned.targets[i];
    if (target.parameter != nullptr) {
      QUIRE_RETURN_IF_ERROR(target.parameter->load(source, weight, target.piece));
      source.release(weight);
    }
    if (options.progress) options.progress(static_cast<int64_t>(weight.stored_bytes));
  }
  return {};
}

}  // namespace quire
