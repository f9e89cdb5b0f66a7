// Patterns answer as Python's re.fullmatch does.
#include "lora/adapter_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  const auto compiled = AdapterPattern::compile(pattern);
  EXPECT_TRUE(compiled.ok()) << pattern << ": " << (compiled.ok() ? "" : compiled.error().message);
  MatchBudget budget;
  return compiled.ok() && compiled->matches(name, budget).value();
}

TEST(AdapterPattern, MatchesTheWholeName) {
  EXPECT_TRUE(matches("q_proj", "q_proj"));
  EXPECT_FALSE(matches("q_proj", "q_proj_"));
  EXPECT_FALSE(matches("q_proj", "aq_proj"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_TRUE(matches("a.c", "abc"));
  EXPECT_FALSE(matches("a.c", "a\nc"));
}

TEST(AdapterPattern, KnowsClassesAndEscapes) {
  EXPECT_TRUE(matches("layers\\.\\d+\\.q", "layers.12.q"));
  EXPECT_FALSE(matches("layers\\.\\d+\\.q", "layersx12.q"));
  EXPECT_TRUE(matches("[qkv]_proj", "k_proj"));
  EXPECT_FALSE(matches("[^qkv]_proj", "k_proj"));
  EXPECT_TRUE(matches("[^qkv]_proj", "o_proj"));
  EXPECT_TRUE(matches("[\\d]{1,}", "77"));
  EXPECT_TRUE(matches("[0-9a-f]+", "beef01"));
  EXPECT_FALSE(matches("[0-9a-f]+", "beeg"));
  EXPECT_TRUE(matches("[]a]+", "]a]"));
  EXPECT_TRUE(matches("[a-]+", "a-a"));
  EXPECT_TRUE(matches("\\w\\W\\s\\S\\D", "a. bx"));
}

TEST(AdapterPattern, KnowsGroupsAndQuantifiers) {
  EXPECT_TRUE(matches("(.*\\.)?(q_proj)$", "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(matches("(.*\\.)?(q_proj)$", "q_proj"));
  EXPECT_FALSE(matches("(.*\\.)?(q_proj)$", "xq_proj"));
  EXPECT_TRUE(matches("(?:a|bc)*d", "abcbcad"));
  EXPECT_TRUE(matches("(?P<name>a)+?", "aaa"));
  EXPECT_TRUE(matches("a{2}", "aa"));
  EXPECT_FALSE(matches("a{2}", "aaa"));
  EXPECT_TRUE(matches("a{,2}b", "aab"));
  EXPECT_TRUE(matches("a{2,}b", "aaaab"));
  EXPECT_FALSE(matches("a{2,3}", "aaaa"));
  EXPECT_TRUE(matches("a{x}", "a{x}"));
  EXPECT_TRUE(matches("a|", ""));
  EXPECT_TRUE(matches("()", ""));
}

TEST(AdapterPattern, KnowsAnchorsEdgesAndLookahead) {
  EXPECT_TRUE(matches("^model\\.layers$", "model.layers"));
  EXPECT_TRUE(matches("\\Amodel\\Z", "model"));
  EXPECT_FALSE(matches("a^b", "ab"));
  EXPECT_TRUE(matches(".*\\bq_proj", "attn.q_proj"));
  EXPECT_FALSE(matches(".*\\bq_proj", "attn.xq_proj"));
  EXPECT_TRUE(matches("a\\Bb", "ab"));
  EXPECT_TRUE(matches("(?!.*lm_head).*proj", "model.q_proj"));
  EXPECT_FALSE(matches("(?!.*lm_head).*", "model.lm_head"));
  EXPECT_TRUE(matches("(?=.*language).*q_proj", "language.q_proj"));
  EXPECT_FALSE(matches("(?=.*language).*q_proj", "vision.q_proj"));
}

/// As a well-known fine-tuning library writes target_modules.
TEST(AdapterPattern, ReadsALongPatternFromTheWild) {
  const std::string pattern =
      "(?:.*?(?:language|text).*?(?:self_attn|attention|attn|mlp|feed_forward|ffn|dense).*?"
      "(?:k_proj|v_proj|q_proj|o_proj|gate_proj|up_proj|down_proj).*?)|(?:\\bmodel\\.layers\\.[\\d]{1,}\\."
      "(?:self_attn|attention|attn|mlp|feed_forward|ffn|dense)\\.(?:(?:k_proj|v_proj|q_proj|o_proj|up_proj)))";
  EXPECT_TRUE(matches(pattern, "model.layers.17.self_attn.q_proj"));
  EXPECT_TRUE(matches(pattern, "model.language_model.layers.3.mlp.down_proj"));
  EXPECT_FALSE(matches(pattern, "model.layers.17.self_attn.rotary"));
}

TEST(AdapterPattern, RefusesWhatItCannotReadWithItsName) {
  const std::pair<const char*, const char*> cases[] = {
      {"(?<=a)b", "(?<="},   {"(?i)a", "(?i)"},     {"(a)\\1", "\\1"},   {"a**", "repetition"},
      {"(a", "unmatched"},   {"a)", "unmatched"},   {"[a", "unmatched"}, {"*a", "nothing to repeat"},
      {"a{3,2}", "below"},   {"a{5000}", "1000"},   {"\\", "backslash"}, {"[z-a]", "backwards"},
      {"a++", "possessive"}, {"\xc3\xa4", "ASCII"}, {"\\q", "\\q"},      {"(?P<a", "no end"},
  };
  for (const auto& [pattern, word] : cases) {
    const auto compiled = AdapterPattern::compile(pattern);
    ASSERT_FALSE(compiled.ok()) << pattern;
    EXPECT_NE(compiled.error().message.find(word), std::string::npos) << pattern << ": " << compiled.error().message;
  }
}

TEST(AdapterPattern, IsBoundedForHostilePatterns) {
  std::string deep(5000, '(');
  EXPECT_FALSE(AdapterPattern::compile(deep).ok());
  EXPECT_FALSE(AdapterPattern::compile("((a{1000}){1000}){1000}").ok());
  EXPECT_FALSE(AdapterPattern::compile("(((){1000}){1000}){1000}").ok());
  EXPECT_FALSE(AdapterPattern::compile(std::string(10000, 'a')).ok());
  // Each state is visited once for each position: what takes a backtracking matcher for ever is quick here.
  EXPECT_FALSE(matches("(a*)*b", std::string(400, 'a')));
  EXPECT_FALSE(matches("(a|aa)+$b", std::string(400, 'a')));
  MatchBudget budget{1000};
  EXPECT_FALSE(AdapterPattern::compile("(a{0,500}){0,9}b")->matches(std::string(400, 'a'), budget).ok());
}

}  // namespace
}  // namespace quire
