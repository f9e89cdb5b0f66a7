// bad_words through a real tokenizer: no way of spelling them is left.
#include "api/spell_bad_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "fake_model.h"

namespace quire {
namespace {

TEST(SpellBadWords, SAMP_20_NoRunOfTokensSpellsAWord) {
  const std::unique_ptr<Tokenizer> tokenizer = test::golden_tokenizer();
  const auto vocabulary = static_cast<int32_t>(tokenizer->vocab_size());
  const std::vector<std::string> words = {"the", "two words", " é"};
  const Result<BadWords> spelt = spell_bad_words(words, *tokenizer, vocabulary);
  ASSERT_TRUE(spelt.ok()) << spelt.error().message;
  // Only pieces of the words, so that the words come all the time where nothing stops them.
  std::vector<int32_t> pieces;
  for (int32_t id = 0; id < vocabulary; ++id) {
    const std::string text = tokenizer->decode({&id, 1}, true).value();
    const bool part = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return !text.empty() && (" " + word).find(text) != std::string::npos;
    });
    if (part) pieces.push_back(id);
  }
  ASSERT_GE(pieces.size(), 8u);
  std::mt19937 generator(1);
  BadWordProgress progress(*spelt);
  std::vector<int32_t> output, banned;
  int stopped = 0;
  while (output.size() < 4000) {
    const int32_t token = pieces[generator() % pieces.size()];
    banned.clear();
    progress.add_banned(banned);
    if (std::count(banned.begin(), banned.end(), token) > 0) {
      ++stopped;
      continue;
    }
    progress.advance(token);
    output.push_back(token);
  }
  EXPECT_GT(stopped, 20);
  const std::string text = tokenizer->decode(output, true).value();
  for (const std::string& word : words) EXPECT_EQ(text.find(word), std::string::npos) << word;
}

TEST(SpellBadWords, NothingToSpell) {
  const std::unique_ptr<Tokenizer> tokenizer = test::golden_tokenizer();
  EXPECT_EQ(*spell_bad_words({}, *tokenizer, 100), nullptr);
  const Result<BadWords> none = spell_bad_words({"the"}, *tokenizer, 0);  // a model that can say no token
  ASSERT_TRUE(none.ok());
  std::vector<int32_t> banned;
  BadWordProgress(*none).add_banned(banned);
  EXPECT_TRUE(banned.empty());
}

}  // namespace
}  // namespace quire
