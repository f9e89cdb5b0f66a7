// The limit comes from the vocabulary, which is only walked once a text is long enough to matter.
#include "server/text_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

/// Below this nothing is judged: it takes a fraction of a second, and a normalizer may shrink some texts a lot.
constexpr size_t kAlwaysTokenized = 256 * 1024;

size_t text_bytes(const Json& content) {
  if (content.is_string()) return content.get_ref<const std::string&>().size();
  size_t total = 0;
  if (content.is_array()) {
    for (const Json& part : content) total += part.is_object() && part.contains("text") ? text_bytes(part["text"]) : 0;
  }
  return total;
}

}  // namespace

TextLimit::TextLimit(const Tokenizer& tokenizer, int64_t max_model_len)
    : tokenizer_(tokenizer), max_model_len_(max_model_len) {}

size_t TextLimit::most_bytes() const {
  std::call_once(measured_, [this] {
    size_t longest = 1;
    const auto vocabulary = static_cast<int32_t>(tokenizer_.vocab_size());
    for (int32_t id = 0; id < vocabulary; ++id) {
      longest = std::max(longest, tokenizer_.id_to_token(id).value_or("").size());
    }
    most_bytes_ = std::max(kAlwaysTokenized, longest * static_cast<size_t>(max_model_len_));
  });
  return most_bytes_;
}

Status TextLimit::judge(size_t bytes, const char* param) const {
  if (bytes <= kAlwaysTokenized || bytes <= most_bytes()) return {};
  return invalid_argument(
      fmt::format("The text has {} bytes, but the context length of {} tokens holds at most {}; shorten it.", bytes,
                  max_model_len_, most_bytes()),
      param);
}

size_t content_bytes(const Conversation& conversation) {
  size_t total = 0;
  for (const Json& message : conversation.messages) {
    if (message.contains("content")) total += text_bytes(message["content"]);
  }
  return total;
}

}  // namespace quire
