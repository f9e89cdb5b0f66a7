// What templates are given for content in parts, and where a continued message ends in what they render.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace quire {

/// Replaces each message's list of text parts by their texts joined with newlines: templates print content as it is.
nlohmann::ordered_json join_text_parts(nlohmann::ordered_json messages);

/// Cuts a rendered conversation right after the last message's text, so that the model goes on inside that turn. The text is looked
/// for without its outer white space, since templates may trim it. Errors name messages where it is not found.
Result<std::string> cut_after_final_message(std::string rendered, const nlohmann::ordered_json& messages);

}  // namespace quire
