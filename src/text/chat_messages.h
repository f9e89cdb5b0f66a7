// Messages of a chat request, as a template wants them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.h"

namespace quire {

/// How a template reads a message's content.
enum class ContentFormat : uint8_t {
  kString,  ///< one text; parts are joined
  kParts,   ///< a list of parts such as {"type": "text", "text": "..."}; a plain text becomes one part
};

/// Whether the template only works with parts: it loops over a message's content and never asks whether it is a string.
ContentFormat content_format_of(std::string_view template_source);

/// The messages as transformers and vLLM hand them to templates: content in the wanted format (text parts are joined by
/// line breaks), null content as empty text, other null fields left out, tool calls' arguments as objects where they
/// are JSON text. Refused by name, with the field's path as param: what is not a list of objects with a role, and parts
/// that are not text.
Result<nlohmann::ordered_json> normalize_messages(const nlohmann::ordered_json& messages,
                                                  ContentFormat format = ContentFormat::kString);

}  // namespace quire
