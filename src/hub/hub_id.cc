#include "hub/hub_id.h"

#include <algorithm>

namespace quire {
namespace {

constexpr size_t kMaxPart = 96;

bool is_part(std::string_view part) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !part.empty() && part.size() <= kMaxPart && part.front() != '.' && part.find("..") == std::string_view::npos &&
         part.find("--") == std::string_view::npos && std::ranges::all_of(part, allowed);
}

}  // namespace

std::optional<HubId> parse_hub_id(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const size_t colon = std::min(text.find(':', slash), text.size());
  const std::string_view organisation = text.substr(0, slash), name = text.substr(slash + 1, colon - slash - 1);
  if (!is_part(organisation) || !is_part(name)) return std::nullopt;
  if (name.ends_with(".gguf") || name.ends_with(".safetensors")) return std::nullopt;
  const std::string_view variant = colon < text.size() ? text.substr(colon + 1) : std::string_view();
  if (colon < text.size() && variant.empty()) return std::nullopt;
  return HubId{std::string(text.substr(0, colon)), std::string(variant)};
}

}  // namespace quire
