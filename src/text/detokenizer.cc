// Incremental decoding over a window of ids: the context (ids whose text is out already) and what is pending. A delta
// is the window's text without the context's, so that decoders which look at neighbours (a dropped leading space,
// joined byte tokens) see them.
#include "text/detokenizer.h"

#include <string_view>
#include <utility>

namespace quire {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
/// Tokens of context: enough for decoders that look one word back, and for any character's bytes.
constexpr size_t kContextTokens = 6;
/// How far back the start of the context may move to find the first byte of a character.
constexpr size_t kLongestContext = 64;
/// A character has at most four bytes, hence four tokens; what stays incomplete for longer is invalid for good.
constexpr size_t kPatience = 8;
constexpr size_t kCharacterTokens = 4;

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tokenizer, std::span<const int32_t> prompt, bool skip_special_tokens,
                         bool spaces_between_special_tokens)
    : tokenizer_(tokenizer),
      skip_special_tokens_(skip_special_tokens),
      join_special_tokens_(!skip_special_tokens && !spaces_between_special_tokens) {
  take_context(prompt);
}

/// The last tokens of the prompt that have text, from the first byte of a character on.
void Detokenizer::take_context(std::span<const int32_t> prompt) {
  const auto has_text = [&](int32_t id) {
    return id >= 0 && id < tokenizer_.vocab_size() && !(skip_special_tokens_ && tokenizer_.is_special(id));
  };
  for (size_t i = prompt.size(); i > 0 && ids_.size() < kLongestContext; --i) {
    if (!has_text(prompt[i - 1])) continue;
    ids_.insert(ids_.begin(), prompt[i - 1]);
    if (ids_.size() < kContextTokens) continue;
    read_text_ = decode(0, ids_.size());
    if (!read_text_.starts_with(kReplacement)) break;
  }
  read_end_ = ids_.size();
  read_text_ = decode(0, read_end_);
}

std::string Detokenizer::decode(size_t begin, size_t end) const {
  auto text = tokenizer_.decode(std::span(ids_).subspan(begin, end - begin), skip_special_tokens_);
  return text.ok() ? std::move(text).value() : std::string();
}

/// The part of `text`, the window's up to `end`, that is not out yet.
std::string Detokenizer::fresh(const std::string& text, size_t end) const {
  if (text.starts_with(read_text_)) return text.substr(read_text_.size());
  // An invalid byte token has changed how the context reads; the pending ids then speak for themselves.
  return decode(read_end_, end);
}

/// The window moves on: what was pending up to `end` becomes context, what was context leaves.
void Detokenizer::move_to(size_t end) {
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(read_end_));
  read_end_ = end - read_end_;
  read_text_ = decode(0, read_end_);
}

std::string Detokenizer::push(int32_t id) {
  if (id < 0 || id >= tokenizer_.vocab_size()) return {};
  ids_.push_back(id);
  const std::string text = decode(0, ids_.size());
  std::string delta = fresh(text, ids_.size());
  if (join_special_tokens_) {
    const bool special = tokenizer_.is_special(id);
    if (std::exchange(after_special_, special) && special) delta = tokenizer_.id_to_token(id).value_or(delta);
  }
  if (!delta.empty() && !delta.ends_with(kReplacement)) {
    move_to(ids_.size());
    return delta;
  }
  return ids_.size() - read_end_ >= kPatience ? push_settled(text) : std::string();
}

/// The pending text that later tokens cannot change any more: that of all but the last few tokens, up to the border of
/// a character.
std::string Detokenizer::push_settled(const std::string& text) {
  for (size_t end = ids_.size() - kCharacterTokens; end > read_end_; --end) {
    const std::string settled = decode(0, end);
    std::string delta = fresh(settled, end);
    if (delta.empty() || !text.starts_with(settled)) continue;
    move_to(end);
    return delta;
  }
  return {};
}

std::string Detokenizer::finish() {
  std::string delta = fresh(decode(0, ids_.size()), ids_.size());
  move_to(ids_.size());
  return delta;
}

}  // namespace quire
