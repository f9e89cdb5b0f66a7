// The check of API keys.
#include "server/auth.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace quire {

namespace {

constexpr std::array<std::string_view, 3> kOpenPaths = {"/health", "/ping", "/metrics"};

bool is_bearer(std::string_view value) {
  constexpr std::string_view kScheme = "bearer ";
  return value.size() > kScheme.size() && std::equal(kScheme.begin(), kScheme.end(), value.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned char>(a[i] ^ other);
  }
  return difference == 0;
}

bool ApiKeys::known(std::string_view key) const {
  bool found = false;
  for (const std::string& candidate : keys_) found |= equal_in_constant_time(key, candidate);  // all, whichever matches
  return found;
}

std::optional<std::string> ApiKeys::refuse(const HttpRequest& request) const {
  if (keys_.empty()) return std::nullopt;
  if (std::find(kOpenPaths.begin(), kOpenPaths.end(), request.path) != kOpenPaths.end()) return std::nullopt;
  const auto value = request.header("Authorization");
  if (!value) return "An API key is needed: send the header 'Authorization: Bearer KEY'.";
  if (!is_bearer(*value)) return "The Authorization header must have the form 'Bearer KEY'.";
  std::string_view key = value->substr(7);
  while (!key.empty() && key.front() == ' ') key.remove_prefix(1);
  if (!known(key)) return "The API key is wrong.";
  return std::nullopt;
}

}  // namespace quire
