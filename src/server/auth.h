// API keys: who may pass.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"

namespace quire {

/// Equal, in a time that depends on the lengths only.
bool equal_in_constant_time(std::string_view a, std::string_view b);

/// Judges Authorization: Bearer against the keys. Without keys everybody passes.
class ApiKeys {
 public:
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  /// Nothing when the request may pass, else the sentence for a 401. /health, /ping and /metrics pass always; the
  /// comparison is with the path exactly as sent, and routes match it exactly too, so no other spelling of a guarded
  /// path gets by.
  std::optional<std::string> refuse(const HttpRequest& request) const;

 private:
  bool known(std::string_view key) const;

  std::vector<std::string> keys_;
};

}  // namespace quire
