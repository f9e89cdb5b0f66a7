#include "lora/adapter_config.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/printable.h"

namespace quire {
namespace {

/// Whether `path` is `name` or ends in "." and `name`.
bool ends_in(std::string_view path, std::string_view name) {
  if (!path.ends_with(name)) return false;
  return path.size() == name.size() || path[path.size() - name.size() - 1] == '.';
}

bool names_match(const std::vector<std::string>& names, const std::string& path) {
  return std::ranges::any_of(names, [&](const std::string& name) { return ends_in(path, name); });
}

Result<bool> matches(const AdapterPattern& pattern, std::string_view path, MatchBudget& budget,
                     const std::string& where) {
  auto matched = pattern.matches(path, budget);
  if (!matched.ok()) return invalid_argument(where + " cannot be used: a pattern in it takes too long to match");
  return matched;
}

Result<bool> selects(const ModuleSelection& selection, const std::string& path, MatchBudget& budget,
                     const std::string& where) {
  if (selection.pattern) return matches(*selection.pattern, path, budget, where);
  return names_match(selection.names, path);
}

/// As (.*\.)?(key)$ matches a key whose only special characters are '.', which stand for any character.
bool ends_in_plain_key(std::string_view path, std::string_view key) {
  if (path.size() < key.size()) return false;
  const size_t begin = path.size() - key.size();
  if (begin > 0 && path[begin - 1] != '.') return false;
  return std::ranges::equal(path.substr(begin), key, [](char c, char k) { return k == '.' || c == k; });
}

Result<const PatternValue*> first_match(const std::vector<PatternValue>& values, const std::string& path,
                                        MatchBudget& budget, const std::string& where) {
  for (const PatternValue& value : values) {
    bool matched = false;
    if (value.pattern) {
      QUIRE_ASSIGN_OR_RETURN(matched, matches(*value.pattern, path, budget, where));
    } else {
      matched = ends_in_plain_key(path, value.key);
    }
    if (matched) return &value;
  }
  return nullptr;
}

/// A component of a path and what stands before it.
struct Component {
  std::string_view before, text;
  bool last = false;
};

std::vector<Component> components(std::string_view path) {
  std::vector<Component> parts;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    parts.push_back({path.substr(0, begin == 0 ? 0 : begin - 1), path.substr(begin, end - begin), end == path.size()});
    begin = end + 1;
  }
  return parts;
}

std::optional<int64_t> as_index(std::string_view text) {
  if (text.empty() || text.size() > 9) return std::nullopt;
  int64_t index = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    index = index * 10 + (c - '0');
  }
  return index;
}

/// The layer that a path lies in, as PEFT reads it: the first number that follows a module that layers_pattern names;
/// without one, the first that has two components before it.
Result<std::optional<int64_t>> layer_of(const std::string& path, const std::vector<AdapterPattern>& patterns,
                                        MatchBudget& budget, const std::string& where) {
  const std::vector<Component> parts = components(path);
  if (patterns.empty()) {
    for (size_t i = 2; i < parts.size(); ++i) {
      const auto index = as_index(parts[i].text);
      if (index && !parts[i].last) return index;
    }
    return std::optional<int64_t>();
  }
  for (const AdapterPattern& pattern : patterns) {
    for (const Component& part : parts) {
      const auto index = as_index(part.text);
      if (!index || part.last) continue;
      QUIRE_ASSIGN_OR_RETURN(const bool matched, matches(pattern, part.before, budget, where));
      if (matched) return index;
    }
  }
  return std::optional<int64_t>();
}

}  // namespace

Error AdapterConfig::broken_promise(const std::string& what) const {
  return invalid_argument(where + ": " + what + ", but the adapter's weights have no tensor for it");
}

Result<ModuleScale> AdapterConfig::scale_of(const std::string& path, MatchBudget& budget) const {
  ModuleScale result{rank_, 0, "r"};
  double alpha = alpha_;
  QUIRE_ASSIGN_OR_RETURN(const PatternValue* rank, first_match(rank_pattern_, path, budget, where));
  if (rank != nullptr) {
    result.rank = static_cast<int64_t>(rank->value);
    result.rank_source = "rank_pattern " + quote_name(rank->key);
  }
  QUIRE_ASSIGN_OR_RETURN(const PatternValue* other, first_match(alpha_pattern_, path, budget, where));
  if (other != nullptr) alpha = other->value;
  const auto divisor = static_cast<double>(result.rank);
  result.scale = static_cast<float>(alpha / (rank_stabilized_ ? std::sqrt(divisor) : divisor));
  return result;
}

Result<std::optional<std::string>> AdapterConfig::why_not_targeted(const std::string& path, MatchBudget& budget) const {
  const auto because = [](const char* reason) { return std::optional<std::string>(reason); };
  QUIRE_ASSIGN_OR_RETURN(const bool excluded, selects(exclude_modules_, path, budget, where));
  if (excluded) return because("is excluded by exclude_modules");
  QUIRE_ASSIGN_OR_RETURN(const bool saved, is_left_to_saving(path, budget));
  if (saved) return because("is in modules_to_save");
  if (!target_modules_) return std::optional<std::string>();
  QUIRE_ASSIGN_OR_RETURN(const bool targeted, selects(*target_modules_, path, budget, where));
  if (!targeted) return because("is not in target_modules");
  const bool exact = std::ranges::find(target_modules_->names, path) != target_modules_->names.end();
  if (layers_to_transform_.empty() || exact || target_modules_->pattern) return std::optional<std::string>();
  QUIRE_ASSIGN_OR_RETURN(const auto layer, layer_of(path, layers_pattern_, budget, where));
  if (layer && std::ranges::find(layers_to_transform_, *layer) != layers_to_transform_.end()) {
    return std::optional<std::string>();
  }
  return because("is outside layers_to_transform");
}

bool AdapterConfig::is_saved_module(std::string_view path, std::vector<bool>& used) const {
  bool any = false;
  for (size_t end = path.size(); end > 0 && end != std::string_view::npos; end = path.rfind('.', end - 1)) {
    const std::string_view module = path.substr(0, end);
    for (size_t i = 0; i < modules_to_save.size(); ++i) {
      if (modules_to_save[i].empty() || !module.ends_with(modules_to_save[i])) continue;
      used[i] = true;
      any = true;
    }
  }
  return any;
}

Result<bool> AdapterConfig::is_left_to_saving(const std::string& path, MatchBudget& budget) const {
  for (const AdapterPattern& pattern : saved_patterns_) {
    QUIRE_ASSIGN_OR_RETURN(const bool matched, matches(pattern, path, budget, where));
    if (matched) return true;
  }
  return false;
}

const std::vector<int64_t>* AdapterConfig::token_indices(const std::string& path) const {
  for (const auto& [name, ids] : trainable_tokens) {
    if (!name.empty() && ends_in(path, name)) return &ids;
  }
  const auto list = trainable_tokens.find("");
  return list == trainable_tokens.end() || is_output_head(path) ? nullptr : &list->second;
}

bool is_output_head(std::string_view path) {
  constexpr std::string_view kNames[] = {"lm_head", "embed_out", "output_layer"};
  return std::ranges::any_of(kNames, [&](std::string_view name) { return ends_in(path, name); });
}

}  // namespace quire
