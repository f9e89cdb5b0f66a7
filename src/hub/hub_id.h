// How a user names a model or an adapter of a hub.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// A repository, and which of its GGUF files is meant.
struct HubId {
  std::string repository;  ///< ORG/NAME
  std::string variant;     ///< of ORG/NAME:VARIANT, a quantization's name or a file's; empty: none given
};

/// None where the text can only be a path: it has not exactly one slash, has characters that no repository's name has,
/// begins with '.', or names a weights file (*.gguf, *.safetensors).
std::optional<HubId> parse_hub_id(std::string_view text);

}  // namespace quire
