#include "api/spell_bad_words.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

namespace quire {
namespace {

/// No token of a usual vocabulary is spelt with more characters; longer ones within a word are found only where the
/// tokenizer itself uses them.
constexpr size_t kLongestPiece = 32;

/// Byte offsets of a text's characters, and its end.
std::vector<size_t> character_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) offsets.push_back(i);
  }
  offsets.push_back(text.size());
  return offsets;
}

/// The word that the tokenizer spells as `ids`: its characters are those of the vocabulary's strings.
BadWord word_of(const std::vector<int32_t>& ids, const Tokenizer& tokenizer, int64_t vocab_size) {
  std::string spelling;
  std::vector<size_t> ends;
  for (const int32_t id : ids) ends.push_back((spelling += tokenizer.id_to_token(id).value_or("")).size());
  const std::vector<size_t> offsets = character_offsets(spelling);
  const auto place_of = [&](size_t offset) {
    return static_cast<int32_t>(std::lower_bound(offsets.begin(), offsets.end(), offset) - offsets.begin());
  };
  std::vector<BadWord::Edge> edges;
  const auto add = [&](int32_t from, int32_t to, int32_t token) {
    if (from < to && token < vocab_size) edges.push_back({from, to, token});
  };
  for (size_t i = 0; i < ids.size(); ++i) add(i == 0 ? 0 : place_of(ends[i - 1]), place_of(ends[i]), ids[i]);
  for (size_t from = 0; from + 1 < offsets.size(); ++from) {
    for (size_t to = from + 1; to < std::min(offsets.size(), from + 1 + kLongestPiece); ++to) {
      const auto piece = std::string_view(spelling).substr(offsets[from], offsets[to] - offsets[from]);
      if (const auto id = tokenizer.token_to_id(piece)) add(static_cast<int32_t>(from), static_cast<int32_t>(to), *id);
    }
  }
  return {std::move(edges), static_cast<int32_t>(offsets.size()) - 1};
}

}  // namespace

Result<BadWords> spell_bad_words(const std::vector<std::string>& words, const Tokenizer& tokenizer,
                                 int64_t vocab_size) {
  if (words.empty()) return BadWords();
  std::vector<BadWord> spelt;
  for (const std::string& word : words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
    std::vector<int32_t> before;
    for (const std::string& text : {bare, " " + bare}) {
      QUIRE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.encode(text, false, SpecialText::kLiteral));
      if (!ids.empty() && ids != before) spelt.push_back(word_of(ids, tokenizer, vocab_size));
      before = ids;
    }
  }
  return BadWords(std::make_shared<const std::vector<BadWord>>(std::move(spelt)));
}

}  // namespace quire
