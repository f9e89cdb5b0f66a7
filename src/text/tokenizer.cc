// The Tokenizer over the Rust library's handle.
#include "text/tokenizer.h"

#include <limits>

#include "text/hf_handles.h"

namespace quire {

struct Tokenizer::Impl {
  TokenizerHandle handle;
  std::vector<bool> special;  ///< by id
};

namespace {

/// As of models: an id far beyond is a damaged file, and tables by id would take the machine's memory.
constexpr uint32_t kMaxVocabulary = 1u << 24;

/// First code point of a range of `count` private-use characters that `text` does not contain, or 0. The two private
/// planes hold 131,068 of them, so that only a text made for the purpose uses all ranges.
uint32_t find_free_range(std::string_view text, uint32_t count) {
  constexpr uint32_t kFirst = 0xF0000;
  constexpr uint32_t kLast = 0x10FFFD;
  const uint32_t ranges = (kLast - kFirst) / count;
  std::vector<bool> used(ranges, false);
  for (size_t i = 0; i + 3 < text.size(); ++i) {
    const auto byte = [&](size_t offset) { return static_cast<uint8_t>(text[i + offset]); };
    if (byte(0) < 0xF3) continue;
    const uint32_t code_point =
        (byte(0) & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu);
    if (code_point < kFirst) continue;
    const uint32_t range = (code_point - kFirst) / count;
    if (range < ranges) used[range] = true;
  }
  for (uint32_t range = 0; range < ranges; ++range) {
    if (!used[range]) return kFirst + range * count;
  }
  return 0;
}

std::vector<int32_t> to_signed(const HfIds& ids) { return {ids.view().begin(), ids.view().end()}; }

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view json) {
  quire_hf_tokenizer* raw = nullptr;
  HfBytes error;
  const int code = quire_hf_tokenizer_new(json.data(), json.size(), &raw, error.out());
  if (code != QUIRE_HF_OK) return hf_error(code, error);
  auto impl = std::make_unique<Impl>();
  impl->handle.reset(raw);
  const uint32_t size = quire_hf_tokenizer_vocab_size(raw);
  if (size == 0 || size > kMaxVocabulary) {
    return invalid_argument("the tokenizer's ids must be 0 to " + std::to_string(kMaxVocabulary - 1) +
                            ", and at least one");
  }
  impl->special.resize(size);
  for (uint32_t id = 0; id < impl->special.size(); ++id) impl->special[id] = quire_hf_tokenizer_is_special(raw, id);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, bool add_special_tokens,
                                               SpecialText special_text) const {
  if (special_text == SpecialText::kParse) return encode_marked(text, add_special_tokens, SpecialTextMarks{});
  QUIRE_ASSIGN_OR_RETURN(const SpecialTextMarks marks, marks_absent_from(text));
  QUIRE_ASSIGN_OR_RETURN(const std::string marked, mark_special_text(text, marks));
  return encode_marked(marked, add_special_tokens, marks);
}

Result<SpecialTextMarks> Tokenizer::marks_absent_from(std::string_view text) const {
  const uint32_t count = quire_hf_tokenizer_mark_count(impl_->handle.get());
  if (count == 0) return SpecialTextMarks{};
  const uint32_t first = find_free_range(text, count);
  if (first == 0) return invalid_argument("the text uses all of Unicode's private-use characters; remove some");
  return SpecialTextMarks{first};
}

Result<std::string> Tokenizer::mark_special_text(std::string_view text, SpecialTextMarks marks) const {
  if (marks.first == 0) return std::string(text);
  HfBytes out, error;
  const int code =
      quire_hf_tokenizer_mark(impl_->handle.get(), text.data(), text.size(), marks.first, out.out(), error.out());
  if (code != QUIRE_HF_OK) return hf_error(code, error);
  return out.str();
}

Result<std::string> Tokenizer::unmark_special_text(std::string_view text, SpecialTextMarks marks) const {
  if (marks.first == 0) return std::string(text);
  HfBytes out, error;
  const int code =
      quire_hf_tokenizer_unmark(impl_->handle.get(), text.data(), text.size(), marks.first, out.out(), error.out());
  if (code != QUIRE_HF_OK) return hf_error(code, error);
  return out.str();
}

Result<std::vector<int32_t>> Tokenizer::encode_marked(std::string_view text, bool add_special_tokens,
                                                      SpecialTextMarks marks) const {
  HfIds ids;
  HfBytes error;
  const int code = quire_hf_tokenizer_encode(impl_->handle.get(), text.data(), text.size(), add_special_tokens,
                                             marks.first, ids.out(), error.out());
  if (code != QUIRE_HF_OK) return hf_error(code, error);
  return to_signed(ids);
}

Result<std::string> Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  // A negative id becomes one far above any vocabulary, which the library refuses; say it in the caller's terms
  // instead.
  for (const int32_t id : ids) {
    if (id < 0) return invalid_argument("token id " + std::to_string(id) + " is negative");
  }
  HfBytes out, error;
  const auto* data = reinterpret_cast<const uint32_t*>(ids.data());
  const int code =
      quire_hf_tokenizer_decode(impl_->handle.get(), data, ids.size(), skip_special_tokens, out.out(), error.out());
  if (code != QUIRE_HF_OK) return hf_error(code, error);
  return out.str();
}

std::optional<std::string> Tokenizer::id_to_token(int32_t id) const {
  HfBytes out;
  if (id < 0 || !quire_hf_tokenizer_id_to_token(impl_->handle.get(), static_cast<uint32_t>(id), out.out())) return {};
  return out.str();
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  uint32_t id = 0;
  if (!quire_hf_tokenizer_token_to_id(impl_->handle.get(), token.data(), token.size(), &id)) return {};
  return static_cast<int32_t>(id);
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < impl_->special.size() && impl_->special[static_cast<size_t>(id)];
}

int64_t Tokenizer::vocab_size() const { return static_cast<int64_t>(impl_->special.size()); }

}  // namespace quire
